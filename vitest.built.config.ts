import path from 'node:path';
import { mergeConfig } from 'vitest/config';
import base from './vitest.config.js';

const sourceDirectory = /^((?:.*\/packages\/[^/]+)|.*?)\/src\//;

/** `npm test`: tests import what was built, which loads faster than the sources, and is what people run. */
export default mergeConfig(base, {
  plugins: [
    {
      name: 'built',
      enforce: 'pre',
      resolveId: (source: string, importer?: string) =>
        importer && /^(\.\.\/)+src\//.test(source)
          ? path
              .resolve(path.dirname(importer), source)
              .replaceAll(path.sep, '/')
              .replace(sourceDirectory, '$1/dist/')
          : null,
    },
  ],
});
