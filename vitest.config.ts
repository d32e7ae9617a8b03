import { configDefaults, defineConfig } from 'vitest/config';
import { nodeFlags } from './test/support/node-flags.mjs';
import { leftOutOn } from './test/support/other-systems.js';
import SlowFirst from './test/support/slow-first.js';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts', 'packages/*/test/**/*.test.ts'],
    exclude: [...configDefaults.exclude, ...leftOutOn(process.platform)],
    globalSetup: 'test/support/global-setup.ts',
    setupFiles: 'test/support/equal-bytes.ts',
    pool: 'forks',
    // With so many MiB from the start, a process collects its garbage a third as often.
    execArgv: [...nodeFlags, '--initial-old-space-size=400'],
    // A process of its own for each file takes a sixth of the processor's time of all tests. What tests change in their process
    // they change back.
    isolate: false,
    // Some of the time is spent waiting for processes: with six, two cores are busy. Each further one costs more than it brings.
    maxWorkers: 6,
    sequence: { sequencer: SlowFirst },
    // The program that is tested is loaded as it was built.
    server: { deps: { external: [/\/dist\//] } },
    testTimeout: 120_000,
    hookTimeout: 60_000,
  },
});
