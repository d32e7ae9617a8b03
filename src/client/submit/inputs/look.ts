import {
  accessSync,
  closeSync,
  lstatSync,
  constants as open,
  openSync,
  readlinkSync,
  readSync,
  type Stats,
  statSync,
} from 'node:fs';
import { quotePath } from '../../../contract/quote.js';
import { errorCode, faultWithoutPath, isMissing } from '../../../files/error-code.js';

/** What is found at a path: a file or a directory, or the words for why it cannot be sent, which follow its name. */
export type Look =
  | { readonly stats: Stats; readonly fault: null }
  | { readonly stats: null; readonly fault: string };

/** Files up to this size may stand for another file. */
const largestPointer = 1024;

/** How the content of a file begins that stands for one which was not fetched. */
const pointers = [
  { start: '/annex/objects/', of: 'git-annex', remedy: "run 'datalad get' or 'git annex get'" },
  { start: 'version https://git-lfs.github.com/spec/', of: 'Git LFS', remedy: "run 'git lfs pull'" },
] as const;

const notFetched = (of: string, remedy: string): string =>
  `has no content on this machine, since ${of} did not fetch it; ${remedy}`;

/** The words for a link that leads to nothing. In a data set of git-annex, a file that was not fetched is such a link. */
function brokenLink(bytes: string | Buffer): string {
  const target = readlinkSync(bytes, { encoding: 'utf8' });
  if (/(^|\/)\.git\/annex\/objects\//.test(target)) return notFetched(pointers[0].of, pointers[0].remedy);
  return `is a link to ${quotePath(target)}, which does not exist`;
}

function kindOf(stats: Stats): string {
  if (stats.isFIFO()) return 'a FIFO';
  return stats.isSocket() ? 'a socket' : 'a device';
}

/** Why a file or a directory cannot be sent; null if it can. */
function faultOf(bytes: string | Buffer, stats: Stats): string | null {
  if (stats.isDirectory()) return null;
  if (!stats.isFile()) return `is neither a file nor a directory but ${kindOf(stats)}`;
  const { size } = stats;
  if (size === 0 || size > largestPointer) {
    accessSync(bytes, open.R_OK);
    return null;
  }
  const descriptor = openSync(bytes, open.O_RDONLY | open.O_NONBLOCK);
  try {
    const buffer = Buffer.alloc(64);
    const start = buffer.toString('latin1', 0, readSync(descriptor, buffer, 0, buffer.length, 0));
    const pointer = pointers.find((each) => start.startsWith(each.start));
    return pointer ? notFetched(pointer.of, pointer.remedy) : null;
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Looks at what a path leads to, links followed. Synchronous, since a directory may have thousands of files: the thread pool
 * takes longer than the calls themselves.
 * @param bytes the path as it is on the disk, if it is not UTF-8
 * @returns null if nothing has this path
 */
export function lookAt(target: string, bytes: string | Buffer = target): Look | null {
  try {
    const stats = statSync(bytes);
    const fault = faultOf(bytes, stats);
    return fault === null ? { stats, fault } : { stats: null, fault };
  } catch (error) {
    if (!isMissing(error)) {
      return { stats: null, fault: `cannot be read: ${faultWithoutPath(error)}` };
    }
    // ENOTDIR: what is before the last slash is a file.
    const isLink =
      errorCode(error) === 'ENOENT' && lstatSync(bytes, { throwIfNoEntry: false })?.isSymbolicLink();
    return isLink ? { stats: null, fault: brokenLink(bytes) } : null;
  }
}

/** Whether something has this path, also a link that leads to nothing. */
export const exists = (target: string): boolean => lookAt(target) !== null;
