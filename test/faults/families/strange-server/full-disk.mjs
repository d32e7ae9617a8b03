import { closeSync, openSync } from 'node:fs';
import path from 'node:path';
import { zip } from '../../../support/zip.mjs';
import { SmallDisk } from '../../support/tmpfs.mjs';
import { runClient } from './run-client.mjs';
import { StrangeServer } from './server.mjs';

const id = 'abcdef012345';
/** Seconds in which a full disk must be reported. */
const bound = 10;
const tellsOfTheDisk = /disk|ENOSPC|no space|full|room/i;

/** A server with one result of 40 MB, which it serves as it should. */
function resultServer(context) {
  const archive = zip([{ name: 'noise', content: Buffer.alloc(40 * 2 ** 20, context.random.bytes(997)) }]);
  return StrangeServer.start(context, ({ request, response }) => {
    const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
    const headers = {
      'Content-Type': 'application/zip',
      'Content-Length': archive.length - from,
      ETag: '"one"',
      'Accept-Ranges': 'bytes',
      ...(from > 0 ? { 'Content-Range': `bytes ${from}-${archive.length - 1}/${archive.length}` } : {}),
    };
    response.writeHead(from > 0 ? 206 : 200, headers);
    response.end(request.method === 'HEAD' ? undefined : archive.subarray(from));
  });
}

async function isTold(context, what, output, options) {
  const server = await resultServer(context);
  try {
    const words = ['result', id, '-o', output];
    const { code, errors, isLate } = await runClient(context, words, server.url, {
      limit: bound,
      ...options,
    });
    context.check(
      !isLate,
      `A download onto ${what} did not end within ${bound} s; it had said: ${errors.slice(-200)}`,
    );
    if (isLate) return;
    context.check(code !== 0, `A download onto ${what} ended with exit code 0`);
    context.check(tellsOfTheDisk.test(errors), `A download onto ${what} says: ${errors.slice(-300)}`);
  } finally {
    server.close();
  }
}

export const fullDisks = {
  async 'A download onto a disk that fills up'(context) {
    const disk = SmallDisk.mount(context, 'size=16m');
    if (disk === null) {
      context.note('Mounting is not allowed here: no download was written to a full disk');
      return;
    }
    try {
      await isTold(context, 'a disk that fills up', path.join(disk.directory, 'out'));
    } finally {
      disk.unmount();
    }
  },
  async 'A download into a full device'(context) {
    const stdout = openSync('/dev/full', 'w');
    await isTold(context, 'a full device', '-', { stdout }).finally(() => closeSync(stdout));
  },
};
