import { lstatSync, readdirSync, readlinkSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { errorCode } from '../../files/error-code.js';

/** Directories of a system that hold its programs and libraries, and what is needed to run them. */
const directories = ['/usr', '/opt', '/etc', '/sys', '/nix/store', '/gnu/store'];
/** These are links into `/usr` on most systems. */
const linked = ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'];

/** Milliseconds that a look through `/etc` counts. */
const freshness = 60_000;

/** What of a system a job may read: its directories, its links, and what is hidden in them. */
export interface SystemFiles {
  readonly directories: readonly string[];
  /** `[name, target]` */
  readonly links: readonly (readonly [string, string])[];
  readonly hiddenDirectories: readonly string[];
  readonly hiddenFiles: readonly string[];
}

const otherMayRead = 0o004;
const otherMayEnter = 0o005;

/** The names in a directory, none if it was removed during a look below `top`. @throws the system's error */
function namesIn(directory: string, top: string): string[] {
  try {
    return readdirSync(directory);
  } catch (cause) {
    if (directory === top || errorCode(cause) !== 'ENOENT') throw cause;
    return [];
  }
}

/**
 * What lies under a directory and is not for everybody on the machine: keys, password files, settings of services. The
 * server's user may be allowed to read it, above all if that is root.
 */
function hiddenUnder(directory: string): Pick<SystemFiles, 'hiddenDirectories' | 'hiddenFiles'> {
  const hiddenDirectories: string[] = [];
  const hiddenFiles: string[] = [];
  const left = [directory];
  for (let current = left.pop(); current !== undefined; current = left.pop()) {
    for (const name of namesIn(current, directory)) {
      const file = path.join(current, name);
      const stats = lstatSync(file, { throwIfNoEntry: false });
      if (!stats || stats.isSymbolicLink()) continue;
      if (!stats.isDirectory()) {
        if ((stats.mode & otherMayRead) === 0) hiddenFiles.push(file);
      } else if ((stats.mode & otherMayEnter) === otherMayEnter) left.push(file);
      else hiddenDirectories.push(file);
    }
  }
  return { hiddenDirectories, hiddenFiles };
}

let known: { readonly at: number; readonly files: SystemFiles } | undefined;

/**
 * What of this machine every job may read. Looked up again after a minute, since an admin may install a service meanwhile.
 * @throws the system's error if `/etc` cannot be read
 */
export function systemFiles(): SystemFiles {
  if (known && performance.now() - known.at < freshness) return known.files;
  const kindOf = (file: string) => lstatSync(file, { throwIfNoEntry: false });
  const files = {
    directories: [...directories, ...linked].filter((each) => kindOf(each)?.isDirectory()),
    links: linked.flatMap((each) =>
      kindOf(each)?.isSymbolicLink() ? [[each, readlinkSync(each)] as const] : [],
    ),
    ...hiddenUnder('/etc'),
  };
  known = { at: performance.now(), files };
  return files;
}

/** The file with the addresses of name servers, where `/etc` has only a link to it; none otherwise. */
export function nameServers(): string[] {
  try {
    const file = realpathSync('/etc/resolv.conf');
    return file.startsWith('/etc/') ? [] : [file];
  } catch {
    return [];
  }
}
