import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: 'test/support/global-setup.ts',
    pool: 'forks',
    // Each test file starts real servers, and these real jobs. Much of the time is spent waiting for them.
    maxWorkers: 4,
    testTimeout: 60_000,
    hookTimeout: 20_000,
  },
});
