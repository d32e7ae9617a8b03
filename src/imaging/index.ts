import type { Imaging } from '../client/case/index.js';
import { prepareLeaving, translateResult } from './deidentify/index.js';
import { findFiles } from './inputs/index.js';

export type { ConvertedFile, ConvertOptions } from './convert/index.js';
export { describeSeries, exists, lookAt, selectSeries, splitPattern } from './inputs/index.js';

/** Imported when it is used, to keep start-up fast. */
export const loadConvertFile = async () => (await import('./convert/index.js')).convertFile;

/** Loads what `show` needs: the program may be upgraded while a job runs. */
export const loadPictures = () => import('./pictures/index.js');

/** Everything that is known about scans, for the client and the command line. */
export const imaging: Imaging = {
  find: findFiles,

  async prepare(cases, { conversion, ...preparing }, reporter) {
    if (conversion) {
      const { checkRequest } = await import('./convert/index.js');
      for (const found of cases) checkRequest(found, conversion);
    }
    return prepareLeaving(cases, preparing, reporter);
  },

  restoreNames: (directory, originals, reporter) =>
    translateResult(directory, originals, (note) => reporter.note(note)),

  async convert(directory, { found, request, record }, reporter) {
    const { convertResult } = await import('./convert/index.js');
    return convertResult(directory, found, request, record, (note) => reporter.note(note));
  },

  async show(paths, showing, reporter) {
    const { show } = await loadPictures();
    return show(paths, showing, reporter);
  },
};
