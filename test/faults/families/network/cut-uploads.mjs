import { file } from '../../../support/form.mjs';
import {
  boundary,
  fieldPart,
  filePart,
  multipart,
  multipartType,
  requestHead,
} from '../../../support/multipart.mjs';
import { checkDirectories } from '../../invariants.mjs';
import { kill, listJobs, steps, trySubmit } from '../../support/api.mjs';
import { Connection } from '../../support/connection.mjs';
import { until } from '../../support/until.mjs';

const path = '/apps/witness/infer';
const body = multipart([
  fieldPart('tta', '2'),
  filePart('inputs', 'scan.nii', 'v'.repeat(3000)),
  filePart('inputs', 'other.nii', 'w'.repeat(50)),
]);

const stated = Buffer.concat([
  requestHead('POST', path, [`Content-Type: ${multipartType}`, `Content-Length: ${body.length}`]),
  body,
]);

const chunks = [body.subarray(0, 700), body.subarray(700)].flatMap((piece) => [
  Buffer.from(`${piece.length.toString(16)}\r\n`),
  piece,
  Buffer.from('\r\n'),
]);
const chunked = Buffer.concat([
  requestHead('POST', path, [`Content-Type: ${multipartType}`, 'Transfer-Encoding: chunked']),
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
export async function cutUploads(context, server, places) {
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
