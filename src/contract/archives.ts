/** Zip archives that one side makes and the other extracts. */

/** What a result is called: in the job's directory, as a download, and where a client saves it (spec.md, Job control). */
export const resultName = 'result.zip';

/** What an app's configuration is called, as a download and where a client saves it. */
export const configName = 'config.zip';

/** Ends the name of an uploaded file that is one directory volume (interface.md, Submission). */
export const volumeSuffix = '.konfaidir.zip';

/** Most entries that an archive from the other side is extracted with. */
export const maxEntries = 200_000;
