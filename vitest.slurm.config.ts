import { defineConfig } from 'vitest/config';

/** `npm run test:slurm`: jobs on a real Slurm cluster of the tests' own, which needs root and Debian's packages. */
export default defineConfig({
  // Nodes start the programs that were built.
  resolve: { alias: [{ find: /^(\.\.\/)+src\//, replacement: `${import.meta.dirname}/dist/` }] },
  test: {
    include: ['test/slurm/*.slurm.ts'],
    globalSetup: 'test/support/global-setup.ts',
    pool: 'forks',
    server: { deps: { external: [/\/dist\//] } },
    // Most of the time is spent waiting for Slurm, which looks at its jobs about once a second.
    maxWorkers: 6,
    testTimeout: 240_000,
    hookTimeout: 60_000,
  },
});
