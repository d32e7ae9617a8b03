/**
 * Preloaded into a server and its runners (`node --import`): with BENCH_FSYNC=off what they sync is taken for synced.
 * Both servers of the row load it, so that loading it is no part of the difference.
 */
import fs from 'node:fs';
import { open } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { fileURLToPath } from 'node:url';

const handle = await open(fileURLToPath(import.meta.url));
const prototype = Object.getPrototypeOf(handle);
await handle.close();
if (process.env.BENCH_FSYNC === 'off') {
  for (const name of ['fsync', 'fdatasync']) {
    fs[name] = (_descriptor, done) => process.nextTick(done, null);
    fs[`${name}Sync`] = () => {};
  }
  prototype.sync = async () => {};
  prototype.datasync = async () => {};
}
syncBuiltinESMExports();
