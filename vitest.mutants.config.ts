import { defineConfig } from 'vitest/config';
import base from './vitest.config.js';

/** For `tools/mutants.mjs`, which names the tests that are run. */
export default defineConfig({
  test: { ...base.test, include: JSON.parse(process.env.REMOTE_APP_MUTANTS_TESTS ?? '[]') },
  plugins: [
    {
      // Stryker's runner asks for threads, in which no test can change its directory, mask or signals.
      name: 'processes',
      configureVitest({ project }) {
        project.config.pool = 'forks';
      },
    },
  ],
});
