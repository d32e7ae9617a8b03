import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import type { Mode } from '../../../src/client/outgoing.js';
import type { FilePart } from '../../../src/client/submit/segments.js';
import { imaging } from '../../../src/imaging/index.js';
import { memoryReporter } from './connect.js';

/** How files leave that are de-identified with the key of a profile in this directory. */
export async function outgoing(configDir: string, mode: Mode = 'full', allowed: readonly string[] = []) {
  const deidentify = { mode, isRefused: false, allowed, configDir, profile: 'default' };
  const preparing = { deidentify, requiresDeidentified: null, server: 'the server' };
  return (await imaging.prepare([], preparing, memoryReporter())).outgoing;
}

/** The bytes of a part as they are sent. */
export function bytesOf({ path, pieces }: FilePart): Buffer {
  if (!pieces) return readFileSync(path);
  const descriptor = openSync(path, 'r');
  try {
    const parts = pieces.map((each) => {
      if (each instanceof Uint8Array) return Buffer.from(each);
      const range = Buffer.alloc(each.end - each.start);
      readSync(descriptor, range, 0, range.length, each.start);
      return range;
    });
    return Buffer.concat(parts);
  } finally {
    closeSync(descriptor);
  }
}
