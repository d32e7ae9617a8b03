import { mergeConfig } from 'vitest/config';
import base from './vitest.config.js';

/** Stryker's runner asks for threads, in which no test can change its directory, mask or signals. */
export default mergeConfig(base, {
  plugins: [
    {
      name: 'processes',
      configureVitest({ project }: { project: { config: { pool: string } } }) {
        project.config.pool = 'forks';
      },
    },
  ],
});
