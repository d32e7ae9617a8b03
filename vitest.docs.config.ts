import built from './vitest.built.config.js';

/** `npm run test:docs`: runs the commands that the pages show, which takes two minutes. */
export default { ...built, test: { ...built.test, include: ['test/docs/*.docs.ts'] } };
