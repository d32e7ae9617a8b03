import { mergeConfig } from 'vitest/config';
import built from './vitest.built.config.js';

/** `npm run test:docs`: runs the commands that the pages show, which takes two minutes. */
const config = mergeConfig(built, {});
export default { ...config, test: { ...config.test, include: ['test/docs/*.docs.ts'] } };
