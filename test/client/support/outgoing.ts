import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import type { FilePart } from '../../../src/client/submit/segments.js';
import {
  deidentifierFor,
  type Mode,
  type Outgoing,
  outgoingOf,
} from '../../../src/imaging/deidentify/index.js';
import type { FoundFiles } from '../../../src/imaging/inputs/index.js';
import { memoryReporter } from './connect.js';

/** How files leave that are de-identified with the key of a profile in this directory. */
export async function outgoing(configDir: string, mode: Mode = 'full', allowed: readonly string[] = []) {
  const choice = { mode, isRefused: false, allowed, configDir, profile: 'default' };
  const terms = { requiresDeidentified: null };
  const deidentifier = await deidentifierFor(choice, terms, 'the server', memoryReporter());
  return (found: FoundFiles): Outgoing | null => outgoingOf(deidentifier, found);
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
