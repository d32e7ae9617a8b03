/** Name under which a result is saved (spec.md, Job control). */
export const archiveName = 'result.zip';
