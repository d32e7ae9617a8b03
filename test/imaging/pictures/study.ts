import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, vi } from 'vitest';
import { temporary } from '../../support/temporary.js';

/** Gives each test of a file a study of its own, in whose directory `here` it works. Returns the path of a name in it. */
export function ownStudy(): (name: string) => string {
  let root: Awaited<ReturnType<typeof temporary>>;
  // Scans are also looked for in the directory above, which is only theirs.
  const at = (name: string) => path.join(root.path, 'study', name);
  beforeEach(async () => {
    root = await temporary();
    mkdirSync(at('here'), { recursive: true });
    vi.spyOn(process, 'cwd').mockReturnValue(at('here'));
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    await root[Symbol.asyncDispose]();
  });
  return at;
}
