import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { firstBytes } from '../../files/index.js';

/** How a checkpoint begins, which is an archive, and what its last bytes begin with. */
const archiveStart = Buffer.from('PK\x03\x04', 'latin1');
const archiveEnd = Buffer.from('PK\x05\x06', 'latin1');
const endBytes = 22;

function lastBytes(file: string): Buffer {
  const descriptor = openSync(file, 'r');
  try {
    const bytes = Buffer.alloc(endBytes);
    readSync(descriptor, bytes, 0, endBytes, Math.max(fstatSync(descriptor).size - endBytes, 0));
    return bytes;
  } finally {
    closeSync(descriptor);
  }
}

/** Why a file is no checkpoint of PyTorch; null if it looks like one. */
export function checkpointFault(file: string): string | null {
  const start = firstBytes(file, 200);
  if (start.length === 0) return 'it is empty, or cannot be read';
  if (start.toString('latin1').startsWith('version https://git-lfs'))
    return "it is a pointer of Git LFS: run 'git lfs pull' where it comes from";
  if (!start.subarray(0, 4).equals(archiveStart)) return 'it is not a checkpoint of PyTorch';
  const isWhole = lastBytes(file).subarray(0, 4).equals(archiveEnd);
  return isWhole ? null : 'its end is missing: copy it again';
}
