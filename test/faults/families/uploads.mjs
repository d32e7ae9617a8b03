/** Uploads that compete for a disk on which not all of them fit. What was accepted is completed, the others are told why not, and jobs go on. */
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../support/form.mjs';
import { unzip } from '../../support/unzip.mjs';
import { times } from '../context.mjs';
import { checkDirectories, checkEnded } from '../invariants.mjs';
import { appendUpload, beginUpload, ended, request, steps, submit, tus } from '../support/api.mjs';
import { Server } from '../support/server.mjs';
import { SmallDisk } from '../support/tmpfs.mjs';
import { until } from '../support/until.mjs';

const mebibyte = 2 ** 20;
/** An eighth of it is reserved for jobs. */
const size = 'size=64m';
/** Together they have about twice the bytes of the disk. */
const competitors = 12;
const pieceSize = mebibyte;
/** Milliseconds in which an upload is complete or refused, across a death of the server. */
const bound = 60_000;

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** An answer; null where the server's death cut the request. */
const unlessCut = (asked) => asked.catch(() => null);

const askUpload = (server, name, method) => request(server, `/uploads/${name}`, { method, headers: tus });

/** Sends one file piece by piece, as a client does: it asks where to go on after whatever happened. */
class Upload {
  isAccepted = false;
  isComplete = false;

  constructor(context, server, at) {
    Object.assign(this, { context, server });
    this.bytes = Buffer.alloc(
      context.random.integer(6, 14) * mebibyte,
      `upload ${at} ${context.random.word()} `,
    );
    this.name = sha256(this.bytes);
  }

  async send() {
    const end = performance.now() + bound;
    while (performance.now() < end) {
      const answer = await this.#step();
      if (answer === 'over') return;
      if (answer === null) await delay(50);
    }
    this.context.violation(`An upload of ${this.bytes.length} bytes is neither complete nor refused`);
  }

  /** One request. @returns 'over' at the end; null where it has to be tried again */
  async #step() {
    const { context, server, bytes, name } = this;
    const known = await unlessCut(askUpload(server, name, 'HEAD'));
    if (known === null || known.status === 423) return null;
    const offset = known.status === 200 ? Number(known.headers.get('upload-offset')) : null;
    if (offset === bytes.length) {
      this.isComplete = true;
      return 'over';
    }
    const piece = bytes.subarray(offset ?? 0, (offset ?? 0) + pieceSize);
    const asked =
      offset === null ? beginUpload(server, name, bytes.length) : appendUpload(server, name, offset, piece);
    const answer = await unlessCut(asked);
    if (answer === null || [409, 423].includes(answer.status)) return null;
    const { status, text } = answer;
    if (status === 507) {
      context.count(this.isAccepted ? 'uploads refused after they were accepted' : 'uploads refused');
      context.check(!this.isAccepted, `An upload was accepted, and refused at byte ${offset}: ${text}`);
      context.check(/disk/.test(text), `A disk without room is told as: ${text}`);
      return 'over';
    }
    context.check(
      [200, 201, 204].includes(status),
      `A part of an upload was answered with ${status}: ${text}`,
    );
    this.isAccepted ||= status === 201;
    return 'sent';
  }
}

/** The content that a job gets is that of the upload. */
async function checkContent(context, server, { name, bytes }) {
  const body = JSON.stringify({ inputs: [{ upload: name, name: 'scan.nii' }] });
  const headers = { 'Content-Type': 'application/json' };
  const answer = await request(server, '/apps/witness/infer', { method: 'POST', headers, body });
  if (answer.status !== 200) {
    context.violation(`A complete upload cannot be submitted: ${answer.status} ${answer.text}`);
    return;
  }
  const { job_id: id } = JSON.parse(answer.text);
  const { status, error } = await ended(server, id);
  context.check(status === 'done', `The job of an upload ended as ${status}: ${error}`);
  const result = await request(server, `/jobs/${id}/result`);
  const isEqual = result.status === 200 && unzip(result.bytes).get('answer')?.equals(bytes);
  context.check(isEqual, `A job got other bytes than those of its upload (${result.status})`);
  await request(server, `/jobs/${id}`, { method: 'DELETE' });
}

async function compete(context, server) {
  const { random } = context;
  const gate = path.join(context.scratch, `gate-${context.serial()}-`);
  const running = { lines: 20, code: 0, content: random.word(100), noise: 0 };
  const form = { inputs: file('scan.nii', running.content), options: steps({ lines: running.lines, gate }) };
  const id = await submit(server, 'witness', 'infer', form);
  const uploads = Array.from({ length: competitors }, (_, at) => new Upload(context, server, at));
  context.count('uploads that compete', uploads.length);
  const sending = Promise.all(uploads.map((each) => each.send()));
  if (random.chance(0.5)) {
    await delay(random.integer(50, 1500));
    context.count('deaths of the server under uploads');
    await server.kill();
    await server.start();
  }
  await sending;
  const complete = uploads.filter(({ isComplete }) => isComplete);
  context.count('  complete', complete.length);
  context.check(complete.length > 0, 'None of the uploads was completed');
  for (let line = 1; line <= running.lines; line += 1) writeFileSync(`${gate}${line}`, '');
  await ended(server, id);
  await checkEnded(context, server, { ...running, id });
  // The job gets a copy, which needs space as well, so the other uploads are removed first.
  const [kept, ...others] = random.shuffle(complete);
  for (const { name } of [...others, ...uploads.filter((each) => !each.isComplete)])
    await askUpload(server, name, 'DELETE');
  if (kept) await checkContent(context, server, kept);
  if (kept) await askUpload(server, kept.name, 'DELETE');
}

export async function run(context) {
  const disk = SmallDisk.mount(context, size);
  if (disk === null) {
    context.note('LEFT OUT: mounting a tmpfs is not permitted here');
    return;
  }
  const server = await new Server(context, { dataDirectory: disk.data, flags: ['--cpu-slots', '2'] }).start();
  try {
    for (let round = times(context.rounds, 8); round > 0; round -= 1)
      await context.attempt('Uploads that compete for a disk', () => compete(context, server));
    await checkDirectories(context, server);
  } finally {
    await server.close();
    await until('the disk can be taken away', () => {
      try {
        disk.unmount();
        return true;
      } catch {
        return false;
      }
    });
  }
}
