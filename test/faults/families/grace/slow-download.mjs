import { setTimeout as delay } from 'node:timers/promises';
import { requestHead } from '../../../support/multipart.mjs';
import { checkArchive } from '../../invariants.mjs';
import { request } from '../../support/api.mjs';
import { Connection } from '../../support/connection.mjs';
import { Server } from '../../support/server.mjs';
import { doneJob, removal } from './done-job.mjs';

const grace = 3;
/** KiB: more than all buffers between server and client hold, so that a client that does not read stops the download. */
const large = 30_000;
/** Milliseconds by which a removal may be late. */
const slack = 8000;

/** What a client received that reads slowly, for longer than the grace period, and whose connection then breaks. */
async function brokenDownload(context, server, id) {
  const connection = await Connection.open(server.url);
  await connection.write(requestHead('GET', `/jobs/${id}/result`));
  await connection.until('\r\n\r\n');
  connection.socket.pause();
  await delay(grace * 1000 * (1.2 + context.random.next()));
  const { received } = connection;
  connection.reset();
  const start = received.indexOf('\r\n\r\n') + 4;
  const etag = /\r\netag: (\S+)/i.exec(received.toString('latin1', 0, start))?.[1];
  return { etag, bytes: received.subarray(start) };
}

/** A download that lasts longer than the grace period, is cut and resumed 200 ms later. */
export async function slowDownload(context) {
  context.count('a download that outlives its grace, is cut and resumed');
  const server = await new Server(context, { flags: ['--grace', String(grace)] }).start();
  try {
    const job = await doneJob(context, server, large);
    const { etag, bytes } = await brokenDownload(context, server, job.id);
    await delay(200);
    const headers = { range: `bytes=${bytes.length}-`, ...(etag === undefined ? {} : { 'if-range': etag }) };
    const resumed = performance.now();
    const rest = await request(server, `/jobs/${job.id}/result`, { headers });
    if (rest.status !== 206) {
      context.violation(
        `A download outlived its grace, was cut and resumed 200 ms later: ${rest.status} ${rest.text.slice(0, 200)}`,
      );
      return;
    }
    checkArchive(context, job, Buffer.concat([bytes, rest.bytes]));
    // A large answer is long sent when this client has read it: the grace is counted from a short one.
    const short = await request(server, `/jobs/${job.id}/result`, { headers: { range: 'bytes=-1000' } });
    const ended = performance.now();
    // On a busy machine this client reads the large answer for longer than the grace.
    if (short.status !== 206 && ended - resumed > grace * 1000) return;
    const took = await removal(server, job.id, ended, grace * 1000 + slack);
    const isFull = took !== null && took >= grace * 1000 - 500;
    context.check(
      isFull,
      `A job was removed ${took === null ? 'never' : `after ${(took / 1000).toFixed(1)} s`}, counted from the last byte of its download, with a grace of ${grace} s`,
    );
  } finally {
    await server.close();
  }
}
