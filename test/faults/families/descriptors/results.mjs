import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { file } from '../../../support/form.mjs';
import { isRunning } from '../../../support/processes.mjs';
import { ended, job, logOf, request, steps, submit } from '../../support/api.mjs';
import { memoryOf } from '../../support/processes.mjs';
import { apps, Server } from '../../support/server.mjs';
import { SmallDisk } from '../../support/tmpfs.mjs';
import { until } from '../../support/until.mjs';

const mebibyte = 2 ** 20;
/** Bytes by which a server may grow while it packs, however many files there are. */
const growthBound = 200 * mebibyte;
/** Maximum number of files in a result. */
const maxFiles = 200_000;
/** Milliseconds for a command to write its files, and for packing them: on a busy machine, jobs have the lowest priority. */
const crumbsBound = 900_000;
/** Milliseconds in which a small result is packed beside giants. */
const smallBound = 20_000;

const start = (server, deed) =>
  submit(server, 'rogue', 'infer', { inputs: file('scan.nii'), options: steps({ do: deed }), cpu: '1' });

const hasEnded = (server, id) => () => readdirSync(server.jobDirectory(id)).includes('exit.json');

/** The most memory of the server, and of whatever packs for it, until a job is final. */
async function watched(server, id) {
  let most = 0;
  const watch = setInterval(() => {
    for (const pid of [server.pid, ...server.processes().map((each) => each.pid)]) {
      most = Math.max(most, memoryOf(pid, 'VmHWM'));
    }
  }, 200);
  try {
    const view = await ended(server, id, crumbsBound);
    return { view, most: Math.max(most, memoryOf(server.pid, 'VmHWM')) };
  } finally {
    clearInterval(watch);
  }
}

/** Unmounts it, once nothing that runs has a file open there. */
const takeAway = (disk) =>
  until(
    'the disk can be taken away',
    () => {
      try {
        disk.unmount();
        return true;
      } catch {
        return false;
      }
    },
    10_000,
  ).catch(() => {});

/** Python finds no fault in an archive, and as many files as there are. */
function checkCount(context, archive, files) {
  const script = `import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
print(archive.testzip(), len(archive.infolist()))`;
  const { stdout, error } = spawnSync('python3', ['-c', script, archive], { encoding: 'utf8' });
  if (error) context.note('There is no python3 here: no archive was read by another program');
  else context.check(stdout === `None ${files}\n`, `Python finds in an archive of ${files} files: ${stdout}`);
}

export const results = {
  /** A result is packed, and packed again by the next server, each time in limited memory and time. */
  async 'a result of 200,000 files'(context) {
    // In memory if possible, because this measures the packer, not the disk.
    const disk = SmallDisk.mount(context, 'size=2g');
    const place = disk === null ? {} : { dataDirectory: disk.data };
    const flags = ['--cpu-slots', '8'];
    const server = await new Server(context, { ...place, apps: [apps.rogue], flags }).start();
    // One more than may be packed, in a run that has the time.
    const files = context.rounds >= 10 ? maxFiles + 1 : 20_000;
    try {
      const id = await start(server, `crumbs:${files}`);
      await until('its command has ended', hasEnded(server, id), crumbsBound);
      await new Promise((resolve) => setTimeout(resolve, context.random.integer(200, 1500)));
      await server.kill();
      await server.start();
      const before = memoryOf(server.pid);
      const { view, most } = await watched(server, id);
      context.highest('memory of packing 200,000 files', most - before, 'bytes');
      context.check(
        view.status === 'done',
        `A result of ${files} files became ${view.status}: ${view.error}`,
      );
      const taken = ((most - before) / mebibyte).toFixed(0);
      context.check(most - before <= growthBound, `Packing ${files} files took ${taken} MiB of memory`);
      const log = await logOf(server, id);
      // Extraction creates the directories as well, of 1,024 files each.
      const packed = Math.min(files, maxFiles - Math.ceil(maxFiles / 1024));
      const isCut = log.some((line) => line.includes(`Only ${packed} files and directories were packed`));
      context.check(
        isCut === files > maxFiles,
        `The log of a result of ${files} files ends: ${log.slice(-3)}`,
      );
      checkCount(context, path.join(server.jobDirectory(id), 'result.zip'), packed);
    } finally {
      await server.close();
      if (disk !== null) await takeAway(disk);
    }
  },
  /** Four results that take hours to pack, and a small one after them. */
  async 'giant results beside a small one'(context) {
    const disk = SmallDisk.mount(context, 'size=512m');
    if (disk === null) {
      context.note('Mounting is not allowed here: no giant result was packed');
      return;
    }
    const server = new Server(context, {
      dataDirectory: disk.data,
      apps: [apps.rogue, apps.witness],
      flags: ['--cpu-slots', '16'],
    });
    await server.start();
    try {
      const giants = await Promise.all(Array.from({ length: 4 }, () => start(server, 'holes')));
      for (const id of giants) await until('its command has ended', hasEnded(server, id), crumbsBound);
      const small = await submit(server, 'witness', 'infer', { inputs: file('scan.nii') });
      const { status } = await ended(server, small, smallBound).catch(() => job(server, small));
      context.check(
        status === 'done',
        `Beside four giant results a small one is ${status} after ${smallBound / 1000} s`,
      );
      const result = await request(server, `/jobs/${small}/result`);
      context.check(
        status !== 'done' || result.status === 200,
        `Beside giants a small result answers ${result.status}`,
      );
      await request(server, '/health', { limit: 5000 });
    } finally {
      await server.kill();
      for (const { pid } of server.processes()) if (isRunning(pid)) process.kill(pid, 'SIGKILL');
      await takeAway(disk);
    }
  },
};
