import { lstatSync, readdirSync } from 'node:fs';
import path from 'node:path';

/** Any of the bits that let somebody write to a file. */
const writable = 0o222;

/** Whether an entry of `/proc` is of the kernel: not of a process, nor a link to one. */
const isOfKernel = (name: string): boolean => !/^\d+$/.test(name);

/**
 * What of `/proc` changes the whole machine: `sys`, `sysrq-trigger`, `irq` and the like. The kernel lets root write there for
 * being root, also without capabilities, and bwrap leaves most of it as it is. Nothing where the server is not root.
 */
export function kernelSettings(): string[] {
  if (process.getuid?.() !== 0) return [];
  return readdirSync('/proc')
    .filter(isOfKernel)
    .map((name) => path.join('/proc', name))
    .filter((file) => {
      const status = lstatSync(file, { throwIfNoEntry: false });
      return status?.isDirectory() || (status?.isFile() && (status.mode & writable) !== 0);
    });
}
