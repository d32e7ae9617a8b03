import { readdirSync, readlinkSync } from 'node:fs';
import path from 'node:path';

/** The files below a directory that this process has open. */
export const openBelow = (directory: string): string[] =>
  readdirSync('/proc/self/fd').flatMap((descriptor) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${descriptor}`);
      return target.startsWith(directory) ? [path.relative(directory, target)] : [];
    } catch {
      // The descriptor that read the list.
      return [];
    }
  });
