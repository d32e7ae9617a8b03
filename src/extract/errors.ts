import { quoteName } from '../contract/quote.js';

/** Why an archive was refused. */
export type ArchiveFault = 'corrupt' | 'unsafe' | 'tooLarge' | 'tooMany';

/** An archive that cannot be, or must not be, extracted. The message says what it was and where. */
export class ArchiveError extends Error {
  override readonly name = 'ArchiveError';

  constructor(
    readonly fault: ArchiveFault,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Of an entry that is not what the archive states of it. */
export const damagedEntry = (name: string, options?: ErrorOptions): ArchiveError =>
  new ArchiveError('corrupt', `its entry ${quoteName(name)} is damaged`, options);
