/** Files that hold model weights (docs/http.md, Apps). */
const weights = /\.(pt|pth|ckpt|onnx|safetensors|bin|h5)$/i;

export const isWeights = (name: string): boolean => weights.test(name);

/** Zip archives that one side makes and the other extracts. */

/** File name of a result: in the job's directory, as a download, and where a client saves it (docs/http.md, Result). */
export const resultName = 'result.zip';

/** The record beside the files of a result, of how it was made. */
export const recordName = 'remote-app-record.json';

/** The log of the job, beside the files of its result. */
export const logName = 'remote-app-log.txt';

/** The table of many cases, beside the directories of their results. */
export const tableName = 'cases.csv';

/** The file at the root of a data set of BIDS. */
export const bidsDescription = 'dataset_description.json';

/** Where a client saves a result if no directory is named. */
export const defaultOutput = './Output';

/** File name of an app's configuration, as a download and where a client saves it. */
export const configName = 'config.zip';

/** Suffix of an uploaded file that is one directory volume (docs/http.md, Submission). */
export const volumeSuffix = '.konfaidir.zip';

/** Most entries that are extracted from an archive of the other side. */
export const maxEntries = 200_000;

/** The first bytes of every zip archive, also of an empty one. */
const zipBeginnings = ['PK\u0003\u0004', 'PK\u0005\u0006', 'PK\u0007\b'];

/** @param start the first bytes of a file, one character each (Latin-1) */
export const beginsAsZip = (start: string): boolean => zipBeginnings.some((each) => start.startsWith(each));
