import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Server } from '../../support/server.mjs';
import { SmallDisk } from '../../support/tmpfs.mjs';
import { within } from '../../support/until.mjs';

/** `serve` on a directory that it cannot use says so in a sentence and exits with 2. */
async function refuses(context, dataDirectory, what) {
  const server = new Server(context, { dataDirectory });
  server.mayEnd = true;
  const child = server.spawn();
  const [code] = await within(`serve on ${what} ends`, once(child, 'close'));
  context.count('a data directory that cannot be used');
  const says = server.stderr.replace(/^WARNING.*\n/gm, '');
  context.check(code === 2 && says.includes(dataDirectory), `serve on ${what} ended with ${code}: ${says}`);
  context.check(!/\n\s+at /.test(says), `serve on ${what} showed a stack: ${says}`);
}

export async function readOnly(context, size) {
  const disk = SmallDisk.mount(context, size);
  try {
    mkdirSync(disk.data);
    disk.remount('ro');
    await context.attempt('A read-only directory', () => refuses(context, disk.data, 'a read-only disk'));
    const absent = path.join(disk.directory, 'absent');
    await context.attempt('A directory to be made', () =>
      refuses(context, absent, 'a directory that cannot be made'),
    );
  } finally {
    disk.unmount();
  }
  const file = path.join(context.scratch, 'file');
  writeFileSync(file, '');
  await context.attempt('A file', () => refuses(context, file, 'a file'));
}
