import { quoteName } from '../contract/quote.js';

/** A file that cannot be packed under its own name, because an archive's names are UTF-8. */
export class MisnamedMember extends Error {
  override readonly name = 'MisnamedMember';

  /** @param member its name relative to what is packed, as far as it can be read */
  constructor(readonly member: string) {
    super(`${quoteName(member)} has a name that is not UTF-8`);
  }
}
