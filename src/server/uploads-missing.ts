import { ServiceError } from '../contract/index.js';

/** Maximum number of uploads that the sentence names. */
const maxNamed = 3;

/** A submission names uploads that do not exist or are incomplete: 409, with all their names. */
export class UploadsMissing extends ServiceError {
  constructor(readonly uploads: readonly string[]) {
    const named = uploads.slice(0, maxNamed).join(', ');
    const more = uploads.length > maxNamed ? ` and ${uploads.length - maxNamed} more` : '';
    super(
      'uploadsMissing',
      `The server does not have what the submission names: ${named}${more}; send ${uploads.length === 1 ? 'it' : 'them'}, and submit again`,
    );
  }
}
