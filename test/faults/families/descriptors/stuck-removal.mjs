import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { file } from '../../../support/form.mjs';
import { filePart, multipart, multipartType, requestHead } from '../../../support/multipart.mjs';
import { killAll } from '../../support/aftermath.mjs';
import { steps, trySubmit } from '../../support/api.mjs';
import { Connection } from '../../support/connection.mjs';
import { Server } from '../../support/server.mjs';
import { until } from '../../support/until.mjs';

const places = 2;
const body = multipart([filePart('inputs', 'scan.nii', 'v'.repeat(200_000))]);

/** The directories of jobs and of uploads under way, wherever in the data directory they are kept. */
const uploadDirectories = ({ dataDirectory }) =>
  readdirSync(dataDirectory, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== 'trash')
    .flatMap(({ name }) =>
      readdirSync(path.join(dataDirectory, name)).map((id) => path.join(dataDirectory, name, id)),
    );

/** Begins an upload and mounts something in its directory, so that it cannot be removed. */
async function beginStuck(server) {
  const connection = await Connection.open(server.url);
  const before = new Set(uploadDirectories(server));
  const headers = [`Content-Type: ${multipartType}`, `Content-Length: ${body.length}`];
  await connection.write(
    Buffer.concat([requestHead('POST', '/apps/witness/infer', headers), body.subarray(0, 100_000)]),
  );
  const isNew = (each) => !before.has(each);
  const directory = await until(
    'an upload has a directory',
    () => uploadDirectories(server).find(isNew) ?? (connection.received.length > 0 ? 'refused' : null),
    20_000,
  );
  if (directory === 'refused')
    throw new Error(`An upload was answered ${connection.received.toString().slice(0, 300)}`);
  const incoming = path.join(directory, 'Incoming');
  const held = path.join(existsSync(incoming) ? incoming : directory, 'held');
  mkdirSync(held);
  const words = ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', held];
  if (spawnSync('mount', words, { stdio: 'ignore' }).status === 0) return connection;
  connection.close();
  return null;
}

/** The mount points below a directory, also after it was moved. */
const mountedBelow = (directory) =>
  readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
    .filter((target) => target.startsWith(`${directory}/`));

/** Unmounts them, wherever they are now. */
function unmountAll(server) {
  for (const each of mountedBelow(server.dataDirectory)) {
    execFileSync('umount', ['--lazy', each], { stdio: 'ignore' });
  }
}

/** The server accepts as many jobs as its limit, although the directories of interrupted uploads are still there. */
async function freePlaces(context, server) {
  const form = { inputs: file('scan.nii'), options: steps({ gate: `${context.scratch}/never` }) };
  for (let place = 1; place <= places; place += 1) {
    const isIn = async () => (await trySubmit(server, 'witness', 'infer', form)).status === 200;
    await until('it can be had', isIn, 8000).catch(() =>
      context.violation(`Place ${place} of ${places} is kept by a refused upload that could not be removed`),
    );
  }
  await killAll(server);
}

/** Interrupted uploads that cannot be removed: their places are released all the same, now and later. */
export async function stuckRemoval(context) {
  const server = await new Server(context, {
    flags: ['--max-jobs', String(places), '--cpu-slots', '1'],
  }).start();
  // An interrupted harness leaves none behind.
  const atExit = () => unmountAll(server);
  process.once('exit', atExit);
  try {
    for (let count = 0; count < places; count += 1) {
      const connection = await beginStuck(server);
      if (connection === null) {
        context.note('Mounting is not allowed here: no removal was made to fail');
        return;
      }
      connection.reset();
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
    await freePlaces(context, server);
  } finally {
    unmountAll(server);
    process.off('exit', atExit);
    await server.close();
  }
}
