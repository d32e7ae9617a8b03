import path from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import { temporary } from '../../support/temporary.js';

/** A directory of its own for each test of a file, with the paths in it and texts without its path. */
export function ownPlace() {
  let root: Awaited<ReturnType<typeof temporary>>;
  beforeEach(async () => {
    root = await temporary();
  });
  afterEach(() => root[Symbol.asyncDispose]());
  return {
    get path() {
      return root.path;
    },
    at: (name: string) => path.join(root.path, name),
    short: (text: string) => text.replaceAll(`${root.path}/`, ''),
  };
}
