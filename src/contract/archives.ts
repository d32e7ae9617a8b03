/** Zip archives that one side makes and the other extracts. */

/** File name of a result: in the job's directory, as a download, and where a client saves it (docs/http.md, Result). */
export const resultName = 'result.zip';

/** The file at the root of a BIDS data set. */
export const bidsDescription = 'dataset_description.json';

/** Where a client saves a result if no directory is named. */
export const defaultOutput = './Output';

/** File name of an app's configuration, as a download and where a client saves it. */
export const configName = 'config.zip';

/** Suffix of an uploaded file that is one directory volume (docs/http.md, Submission). */
export const volumeSuffix = '.konfaidir.zip';

/** Maximum number of entries extracted from an archive of the other side. */
export const maxEntries = 200_000;
