import type { Imaging } from '../client/case/index.js';
import { prepareLeaving, translateResult } from './deidentify/index.js';
import { findFiles } from './inputs/index.js';

export type { ConvertedFile, ConvertOptions } from './convert/index.js';
export { describeSeries, exists, lookAt, selectSeries, splitPattern } from './inputs/index.js';

/** Imported on first use to keep start-up fast. */
export const loadConvertFile = async () => (await import('./convert/index.js')).convertFile;

/** Loads the modules that `show` needs, because the program may be upgraded while a job runs. */
export const loadPictures = () => import('./pictures/index.js');

/** The imaging functions that the client and the command line use. */
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
