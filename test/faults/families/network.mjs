/** Networks that cut, stall and reset connections; proxies; repeated idempotency keys. */
import { times } from '../context.mjs';
import { Server } from '../support/server.mjs';
import { cutUploads } from './network/cut-uploads.mjs';
import { downloadByRanges } from './network/downloads.mjs';
import { repeatKeys } from './network/keys.mjs';
import { throughNginx } from './network/nginx.mjs';
import { inferThroughFaults } from './network/through-faults.mjs';

export async function run(context) {
  const flags = ['--cpu-slots', '2', '--grace', '600', '--max-jobs', '200'];
  const server = await new Server(context, { flags }).start();
  try {
    const nginx = context.attempt('Through nginx', () => throughNginx(context));
    for (let round = times(context.rounds, 5); round > 0; round -= 1) {
      const clients = Array.from({ length: 2 }, () => inferThroughFaults(context, server));
      await Promise.all(clients);
    }
    for (let round = times(context.rounds, 3); round > 0; round -= 1) {
      await context.attempt('A key that comes again', () => repeatKeys(context, server));
      await context.attempt('A download by ranges', () => downloadByRanges(context, server));
    }
    await nginx;
    await context.attempt('An infer across deaths of the server', () =>
      inferThroughFaults(context, server, { deaths: 2 }),
    );
  } finally {
    await server.close();
  }
  // Only two places, so that one which an upload does not release is noticed at once.
  const small = await new Server(context, { flags: ['--max-jobs', '2'] }).start();
  try {
    for (let round = times(context.rounds, 3); round > 0; round -= 1) await cutUploads(context, small, 2);
  } finally {
    await small.close();
  }
}
