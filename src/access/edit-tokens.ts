import { quotePath } from '../contract/quote.js';
import { editJsonFile } from '../files/edit-json-file.js';
import { faultWithoutPath, isSystemError } from '../files/error-code.js';
import { noTokens, readTokens, type TokenDocument, TokenFileError } from './token-file.js';

/**
 * Changes the file of the tokens, which is made where there is none. A server that reads it meanwhile finds the old tokens
 * or the new ones; of two commands that change it at the same time, one waits. Owner and mode of the file stay.
 * @param change what the file is to hold after what it holds; may throw
 * @throws TokenFileError, or what `change` throws
 */
export function editTokens(given: string, change: (before: TokenDocument) => TokenDocument): void {
  try {
    const edit = (file: string | null) => change(file === null ? noTokens : readTokens(file));
    const outcome = editJsonFile(given, edit, { keepsAccess: true });
    if (outcome === 'taken') {
      throw new TokenFileError(`Another command is changing ${quotePath(given)}; try again`);
    }
    if (outcome === 'replaced') {
      throw new TokenFileError(`${quotePath(given)} was replaced again and again; try again`);
    }
  } catch (cause) {
    if (!isSystemError(cause)) throw cause;
    const remedy = 'it needs a directory that you may write to';
    throw new TokenFileError(
      `The tokens in ${quotePath(given)} cannot be changed: ${faultWithoutPath(cause)}; ${remedy}`,
      { cause },
    );
  }
}
