/** As many jobs and streams as the limits allow, and one more; silent clients; readers that do not read. */
import { Server } from '../support/server.mjs';
import { fullServer, limit } from './load/full-server.mjs';
import { manyStreams } from './load/many-streams.mjs';
import { pipelined } from './load/pipelined.mjs';
import { silentConnections } from './load/silent-connections.mjs';
import { slowReaders } from './load/slow-readers.mjs';

async function served(context, what, flags, run) {
  await context.attempt(what, async () => {
    const server = await new Server(context, { flags: ['--cpu-slots', '1', ...flags] }).start();
    try {
      await run(context, server);
    } finally {
      await server.close();
    }
  });
}

export async function run(context) {
  await served(context, 'Jobs up to the limit', ['--max-jobs', String(limit)], fullServer);
  await served(context, 'Log streams up to the limit', ['--max-jobs', '250'], manyStreams);
  await served(context, 'Silent connections', [], silentConnections);
  await served(context, 'Slow readers', ['--max-jobs', '100'], slowReaders);
  await served(context, 'Requests that wait behind another', [], pipelined);
}
