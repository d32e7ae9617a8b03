import { mergeConfig } from 'vitest/config';
import base from './vitest.config.js';

/** `npm test`: tests import what was built, which loads faster than the sources, and is what people run. */
export default mergeConfig(base, {
  resolve: { alias: [{ find: /^(\.\.\/)+src\//, replacement: `${import.meta.dirname}/dist/` }] },
});
