import { defineConfig } from 'vitest/config';

/** `npm run test:package`: the packages that are installed, which takes longer than the rest may; that of Debian needs root. */
export default defineConfig({
  test: {
    include: ['test/package/*.package.ts'],
    pool: 'forks',
    testTimeout: 500_000,
    hookTimeout: 60_000,
  },
});
