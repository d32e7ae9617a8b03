import { quoteName } from '../contract/index.js';

/** Why an archive was refused. */
export type ArchiveFault = 'corrupt' | 'unsafe' | 'tooLarge' | 'tooMany' | 'unplaced';

/** An archive that cannot, or must not, be extracted. The message says what is wrong and where. */
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

/** The error for an entry whose content does not match its stated size or checksum. */
export const damagedEntry = (name: string, options?: ErrorOptions): ArchiveError =>
  new ArchiveError('corrupt', `its entry ${quoteName(name)} is damaged`, options);
