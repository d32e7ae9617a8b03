/** Networks that cut, stall and reset connections. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../support/form.mjs';
import {
  boundary,
  fieldPart,
  filePart,
  multipart,
  multipartType,
  requestHead,
} from '../../support/multipart.mjs';
import { times } from '../context.mjs';
import { checkDirectories } from '../invariants.mjs';
import { kill, listJobs, steps, trySubmit } from '../support/api.mjs';
import { remoteApp } from '../support/client.mjs';
import { Connection } from '../support/connection.mjs';
import { FaultyProxy, faultKinds } from '../support/proxy.mjs';
import { Server } from '../support/server.mjs';
import { until } from '../support/until.mjs';

const target = '/apps/witness/infer';
const body = multipart([
  fieldPart('tta', '2'),
  filePart('inputs', 'scan.nii', 'v'.repeat(3000)),
  filePart('inputs', 'other.nii', 'w'.repeat(50)),
]);

const stated = Buffer.concat([
  requestHead('POST', target, [`Content-Type: ${multipartType}`, `Content-Length: ${body.length}`]),
  body,
]);

const chunks = [body.subarray(0, 700), body.subarray(700)].flatMap((piece) => [
  Buffer.from(`${piece.length.toString(16)}\r\n`),
  piece,
  Buffer.from('\r\n'),
]);
const chunked = Buffer.concat([
  requestHead('POST', target, [`Content-Type: ${multipartType}`, 'Transfer-Encoding: chunked']),
  ...chunks,
  Buffer.from('0\r\n\r\n'),
]);

/** Offsets at which a request may be cut: around the beginning and end of each of its parts. */
function boundaries(whole) {
  const marks = [
    'HTTP/1.1',
    'Content-Type',
    '\r\n\r\n',
    `--${boundary}`,
    'filename',
    'vvv',
    'www',
    '\r\n0\r\n',
    '2bc\r\n',
  ];
  const places = new Set([1, whole.length - 1, whole.length - 2, whole.length - 3]);
  for (const mark of marks) {
    for (let at = whole.indexOf(mark); at >= 0; at = mark[1] === mark[0] ? -1 : whole.indexOf(mark, at + 1)) {
      for (const near of [at, at + 1, at + mark.length - 1, at + mark.length]) places.add(near);
    }
  }
  return [...places].filter((at) => at > 0 && at < whole.length);
}

const ends = {
  close: (connection) => connection.close(),
  reset: (connection) => connection.reset(),
  'half-close': async (connection) => {
    connection.socket.end();
    await connection.answer('the end of a half-closed upload');
    connection.close();
  },
};

/** Uploads cut at every kind of boundary leave no job, no file and no used place. */
async function cutUploads(context, server, places) {
  const { random } = context;
  const before = (await listJobs(server)).length;
  for (const [form, whole] of Object.entries({ 'with a length': stated, 'in chunks': chunked })) {
    for (const at of random.shuffle(boundaries(whole))) {
      const end = random.pick(Object.keys(ends));
      context.count('uploads cut');
      await context.attempt(`An upload ${form}, cut at byte ${at} by ${end}`, async () => {
        const connection = await Connection.open(server.url);
        await connection.write(whole.subarray(0, at));
        // The server reads what came so far before the end comes.
        if (random.chance(0.5)) await new Promise((resolve) => setTimeout(resolve, random.integer(1, 15)));
        await ends[end](connection);
      });
    }
  }
  await checkDirectories(context, server);
  context.check((await listJobs(server)).length === before, 'A cut upload became a job');
  // All places are free: the server accepts as many jobs as its limit. A place is released after its directory is removed.
  await context.attempt('Every place is free after the cut uploads', async () => {
    const ids = [];
    for (let place = 0; place < places; place += 1) {
      const form = { inputs: file('scan.nii'), options: steps({ gate: `${context.scratch}/never` }) };
      const isIn = async () => {
        const { status, text } = await trySubmit(server, 'witness', 'infer', form);
        return status === 200 ? JSON.parse(text).job_id : null;
      };
      ids.push(await until(`place ${place + 1} of ${places} can be had`, isIn, 10_000));
    }
    for (const id of ids) await kill(server, id);
  });
}

/** A client sends a submission at most four times, so the network may break three of them. */
const maxInUploads = 3;
const maxAfterwards = 4;

/** Faults of successive connections: early ones in the upload or its answer, later ones in logs and the download. */
function plan(random) {
  const fault = (direction, after) => ({
    kind: random.pick(faultKinds),
    direction,
    after,
    pause: random.integer(50, 1200),
  });
  const inUploads = Array.from({ length: random.integer(0, maxInUploads) }, () =>
    random.chance(0.7) ? fault('up', random.integer(0, 200_000)) : fault('down', random.integer(0, 400)),
  );
  const afterwards = Array.from({ length: random.integer(1, maxAfterwards) }, () =>
    fault('down', random.pick([random.integer(0, 1500), random.integer(1500, 400_000)])),
  );
  return [...inUploads, ...afterwards];
}

/** One `remote-app infer` over a network that breaks: its output and result are as without faults. */
async function inferThroughFaults(context, server, { deaths = 0 } = {}) {
  const { random } = context;
  const proxy = await FaultyProxy.open(() => server.url);
  const nonce = random.word(12);
  const directory = path.join(context.scratch, nonce);
  const witness = path.join(context.scratch, `${nonce}.witness`);
  mkdirSync(directory);
  const scan = random.bytes(random.integer(1, 300_000));
  writeFileSync(path.join(directory, 'scan.bin'), scan);
  proxy.faults = plan(random);
  const planned = proxy.faults.length;
  const faults = JSON.stringify(proxy.faults);
  const lines = random.integer(5, 60);
  const settings = { witness, nonce, lines, pause: '0.02', noise: 300 };
  const set = Object.entries(settings).flatMap(([name, value]) => ['--set', `${name}=${value}`]);
  const words = [
    'infer',
    path.join(directory, 'scan.bin'),
    ...set,
    '--output',
    path.join(directory, 'Output'),
  ];
  try {
    const running = remoteApp(context, words, { url: proxy.url });
    for (let death = 0; death < deaths; death += 1) {
      const isAccepted = async () => (await listJobs(server)).some(({ status }) => status === 'running');
      await until('the job runs', isAccepted).catch(() => {});
      await delay(random.integer(0, 300));
      await server.kill();
      await server.start();
      context.count('deaths of the server under a client');
    }
    const { code, stdout, stderr } = await running;
    const where = `infer ${nonce} through ${faults}`;
    context.check(code === 0, `${where} ended with ${code}: ${stderr.slice(-600)}`);
    const own = stdout.split('\n').filter((line) => line.startsWith('line '));
    const expected = Array.from({ length: lines }, (_, at) => `line ${at + 1} of ${lines}`);
    context.check(
      own.join() === expected.join(),
      `${where} lacks or repeats a log line: ${own.length} of ${lines}`,
    );
    const starts = readFileSync(witness, 'utf8')
      .split('\n')
      .filter((line) => line.endsWith(` ${nonce}`));
    context.check(starts.length === 2, `${where} made ${starts.length / 2} jobs`);
    if (code === 0) {
      const answer = readFileSync(path.join(directory, 'Output', 'answer'));
      context.check(answer.equals(scan), `${where} brought another result`);
    }
  } catch (cause) {
    context.violation(`infer ${nonce} through ${faults}: ${cause.message}`);
  } finally {
    context.count('infer through a broken network');
    context.count('  connections broken', proxy.happened);
    context.count('  connections spared', planned - proxy.happened);
    await proxy.close();
  }
}

export async function run(context) {
  const flags = ['--cpu-slots', '2', '--grace', '600', '--max-jobs', '200'];
  const server = await new Server(context, { flags }).start();
  try {
    for (let round = times(context.rounds, 5); round > 0; round -= 1) {
      const clients = Array.from({ length: 2 }, () => inferThroughFaults(context, server));
      await Promise.all(clients);
    }
    await context.attempt('An infer across deaths of the server', () =>
      inferThroughFaults(context, server, { deaths: 2 }),
    );
  } finally {
    await server.close();
  }
  // Only two places, so that one that an upload does not release is noticed at once.
  const small = await new Server(context, { flags: ['--max-jobs', '2'] }).start();
  try {
    for (let round = times(context.rounds, 3); round > 0; round -= 1) await cutUploads(context, small, 2);
  } finally {
    await small.close();
  }
}
