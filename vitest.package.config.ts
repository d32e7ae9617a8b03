import { defineConfig } from 'vitest/config';

/** `npm run test:package`: the Debian package, which takes longer than the rest may, and needs root. */
export default defineConfig({
  test: {
    include: ['test/package/*.package.ts'],
    pool: 'forks',
    testTimeout: 180_000,
    hookTimeout: 60_000,
  },
});
