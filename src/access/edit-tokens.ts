import { closeSync, constants, realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import { quotePath } from '../contract/quote.js';
import { type FileAccess, writeJsonFile } from '../files/atomic-json.js';
import { errorCode, faultWithoutPath } from '../files/error-code.js';
import { lockPath } from '../files/file-lock.js';
import { syncDirectorySync } from '../files/sync.js';
import { noTokens, readTokens, type TokenDocument, TokenFileError } from './token-file.js';

/** Seconds to wait for another command that changes the same file. */
const patience = 10;
/** How often to begin again if another command has made the file meanwhile. */
const attempts = 5;

/** A path without links: the file that they lead to is replaced, and not the link. */
function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch (cause) {
    if (errorCode(cause) !== 'ENOENT') throw cause;
    return path.join(realpathSync(path.dirname(path.resolve(file))), path.basename(file));
  }
}

/** Locks a file that is there. @returns a function that ends that; null if there is no file */
function lock(file: string): (() => void) | null {
  try {
    const outcome = lockPath(file, constants.O_RDONLY | constants.O_NONBLOCK, patience);
    if (outcome === 'taken') {
      throw new TokenFileError(`Another command is changing ${quotePath(file)}; try again`);
    }
    // Where nothing can be locked, one person at a time changes the file.
    return typeof outcome === 'object' && 'descriptor' in outcome
      ? () => closeSync(outcome.descriptor)
      : () => {};
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return null;
    throw cause;
  }
}

/** @returns whether it is written; false if another command has made the file at the same time */
function write(file: string, document: TokenDocument, like: FileAccess | 'new'): boolean {
  try {
    writeJsonFile(file, document, { like });
    syncDirectorySync(path.dirname(file));
    return true;
  } catch (cause) {
    if (like === 'new' && errorCode(cause) === 'EEXIST') return false;
    throw cause;
  }
}

/**
 * Changes the file of the tokens, which is made where there is none. A server that reads it meanwhile finds the old tokens
 * or the new ones; of two commands that change it at the same time, one waits. Owner and mode of the file stay.
 * @param change what the file is to hold after what it holds; may throw
 * @throws TokenFileError, or what `change` throws
 */
export function editTokens(given: string, change: (before: TokenDocument) => TokenDocument): void {
  try {
    const file = realPath(given);
    for (let attempt = 0; attempt < attempts; attempt += 1) {
      const unlock = lock(file);
      try {
        const after = change(unlock ? readTokens(file) : noTokens);
        if (write(file, after, unlock ? statSync(file) : 'new')) return;
      } finally {
        unlock?.();
      }
    }
  } catch (cause) {
    if (!(cause instanceof Error && 'errno' in cause)) throw cause;
    const remedy = 'it needs a directory that you may write to';
    throw new TokenFileError(
      `The tokens in ${quotePath(given)} cannot be changed: ${faultWithoutPath(cause)}; ${remedy}`,
      {
        cause,
      },
    );
  }
  throw new TokenFileError(`${quotePath(given)} was replaced again and again; try again`);
}
