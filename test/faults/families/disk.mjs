/** Disks that are full, or cannot be written to: the error is clear, and the server keeps running and works again with room. */
import { checkDirectories } from '../invariants.mjs';
import { apps, Server } from '../support/server.mjs';
import { SmallDisk } from '../support/tmpfs.mjs';
import { fullDuring } from './disk/full-during.mjs';
import { readOnly } from './disk/read-only.mjs';
import { fullAtTransitions } from './disk/transitions.mjs';

const size = 'size=24m';

export async function run(context) {
  const disk = SmallDisk.mount(context, size);
  if (disk === null) {
    context.note('LEFT OUT: mounting a tmpfs is not permitted here');
    return;
  }
  const flags = ['--cpu-slots', '1', '--grace', '600'];
  const server = await new Server(context, {
    dataDirectory: disk.data,
    apps: [apps.rogue, apps.witness],
    flags,
  }).start();
  try {
    await fullDuring(context, server, disk);
    await fullAtTransitions(context, server, disk);
    await checkDirectories(context, server);
  } finally {
    await server.close();
    disk.unmount();
  }
  await readOnly(context, size);
}
