import { lstatSync, readlinkSync, symlinkSync, unlinkSync } from 'node:fs';

/**
 * Longest path of a directory for temporary files, in bytes. A socket's path has at most 107: that leaves 37, of which Python's
 * `multiprocessing` needs 32 and PyTorch 34.
 */
const longest = 70;

/** A name that nobody else can replace: `/tmp` is sticky. */
const linkOf = (id: string): string => `/tmp/remote-app-${id}`;

/** What a link of this user's leads to; undefined for anything else. */
function targetOf(link: string): string | undefined {
  try {
    return lstatSync(link).uid === process.geteuid?.() ? readlinkSync(link) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * A path of a directory for temporary files that is short enough for sockets below it: its own, or a link in `/tmp`. The
 * files themselves stay where they count to the job, and are removed with it.
 * @param id of the job, or of the loaded app
 * @returns the long path where the link can't be made
 */
export function shortTemporary(id: string, directory: string): string {
  if (Buffer.byteLength(directory) <= longest) return directory;
  const link = linkOf(id);
  try {
    symlinkSync(directory, link);
    return link;
  } catch {
    return targetOf(link) === directory ? link : directory;
  }
}

/** Removes the link, if there is one and it is this user's. */
export function removeShortTemporary(id: string): void {
  const link = linkOf(id);
  if (targetOf(link) === undefined) return;
  try {
    unlinkSync(link);
  } catch {
    // A link that leads nowhere harms nobody.
  }
}
