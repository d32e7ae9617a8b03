import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { checkArchive } from '../../invariants.mjs';
import { appendUpload, ended, request, tus } from '../../support/api.mjs';
import { Server } from '../../support/server.mjs';
import { cutAfter, materialise } from './survivors.mjs';

const finals = /"job_id":\s*"([0-9a-f]{12})",\s*"status":\s*"(done|error|killed)"/g;
const envelopes = /"job_id":\s*"([0-9a-f]{12})",\s*"status_url"/g;
const begun = /^HTTP\/1\.1 201 [\s\S]*?\r\n\r\n/gm;

/** What the server has told its clients, up to a call of the trace. */
export class Promises {
  accepted = new Set();
  /** The end of each job that an answer stated. */
  ends = new Map();
  /** The offset of each upload that an answer stated, by its name. */
  uploads = new Map();
  /** Jobs whose runner may have begun: how far the command came is unknown. */
  begun = new Set();

  /** Takes in one call; returns whether it promised something new. */
  hear({ name, args, paths, opened = '', given }) {
    const made = given.includes('O_CREAT') ? [opened] : /^(link|rename)/.test(name) ? paths : [];
    for (const path of made) {
      const id = /\/jobs\/([0-9a-f]{12})\/run(ner)?\.json$/.exec(path)?.[1];
      if (id !== undefined) this.begun.add(id);
    }
    if (!/^(write|writev|sendmsg|sendto)$/.test(name)) return false;
    const to = args[0]?.path ?? '';
    const before = this.accepted.size + this.ends.size + this.uploads.size;
    if (!/^(socket|TCP)/.test(to)) return false;
    const said = Buffer.concat(args.flatMap(({ bytes }) => bytes ?? [])).toString('latin1');
    for (const [, id] of said.matchAll(envelopes)) this.accepted.add(id);
    for (const [, id, status] of said.matchAll(finals)) this.ends.set(id, status);
    for (const [head] of said.matchAll(begun)) {
      const name = /^Location: uploads\/([0-9a-f]{64})\r$/m.exec(head)?.[1];
      const offset = Number(/^Upload-Offset: (\d+)\r$/m.exec(head)?.[1]);
      if (name !== undefined) this.uploads.set(name, Math.max(offset, this.uploads.get(name) ?? 0));
    }
    return this.accepted.size + this.ends.size + this.uploads.size > before;
  }
}

async function checkJob(context, server, job, promises, when) {
  const { id, fate } = job;
  const promised = promises.ends.get(job.recorded);
  const answer = await request(server, `/jobs/${id}`);
  if (answer.status !== 200) {
    const what = promised === undefined ? 'was accepted' : `was answered as ${promised}`;
    context.violation(`Job ${id} ${what} before a power cut and answers ${answer.status} after it (${when})`);
    return;
  }
  // Its command waits for ever if it runs again.
  if (fate === 'killed' && promised === undefined) return;
  const { status, error } = await ended(server, id);
  if (promised !== undefined) {
    const isSame = status === promised;
    context.check(
      isSame,
      `Job ${id} was ${promised} before a power cut and is ${status} after it: ${error} (${when})`,
    );
  } else if (!promises.begun.has(job.recorded)) {
    const end = fate === 'error' ? 'error' : 'done';
    context.check(
      status === end,
      `Job ${id}, accepted before a power cut, ended as ${status} after it: ${error} (${when})`,
    );
  }
  if (status !== 'done') return;
  const result = await request(server, `/jobs/${id}/result`);
  if (result.status === 200) checkArchive(context, job, result.bytes);
  else
    context.violation(`Job ${id} is done after a power cut, its result answers ${result.status} (${when})`);
}

/** Checks that what was told of an upload is there, and sends the rest. */
async function checkUpload(context, server, name, content, promised, when) {
  const head = await request(server, `/uploads/${name}`, { method: 'HEAD', headers: tus });
  const offset = Number(head.headers.get('upload-offset') ?? -1);
  context.check(
    offset >= promised,
    `Upload ${name} had ${promised} of ${content.length} bytes before a power cut and ${offset} after it (${when})`,
  );
  if (offset < promised) return;
  const { status } = await appendUpload(server, name, offset, content.subarray(offset));
  // A size that was kept without its bytes is found out at the end; no such byte was promised.
  const isRight = status === 204 || (status === 422 && offset > promised);
  context.check(isRight, `Upload ${name} goes on after a power cut with ${status}, from ${offset} (${when})`);
}

/** No upload has a name that its bytes do not stand for. */
function checkNames(context, directory, when) {
  const root = path.join(directory, 'uploads');
  for (const entry of readdirSync(root, { recursive: true }).filter((each) =>
    /[/][0-9a-f]{64}$/.test(each),
  )) {
    const found = createHash('sha256')
      .update(readFileSync(path.join(root, entry)))
      .digest('hex');
    context.check(entry.endsWith(found), `The upload ${entry} has other bytes after a power cut (${when})`);
  }
}

/** Cuts the power after so many calls of the trace, and starts a server on what may be on the disk then. */
export async function replay(context, { jobs, uploads, data }, calls, count, random) {
  const promises = new Promises();
  for (const call of calls.slice(0, count)) promises.hear(call);
  const { state, when } = cutAfter(calls, count, data, random);
  const serial = context.serial();
  const directory = path.join(context.scratch, `cut-${String(serial).padStart(6, '0')}`);
  // Each replay has its own ids, because a server searches the whole machine for processes of its jobs by their ids.
  const idOf = (recorded) => `${serial.toString(16).padStart(4, '0')}${recorded.slice(4)}`;
  materialise(state, directory, [[data, directory], ...[...jobs.keys()].map((id) => [id, idOf(id)])]);
  context.count(`a power cut that leaves ${state.what.split(', ')[0]}`);
  const server = new Server(context, {
    dataDirectory: directory,
    flags: ['--cpu-slots', '2', '--grace', '600'],
  });
  server.mayEnd = true;
  try {
    server.spawn();
    await server.listening();
    for (const id of promises.accepted) {
      const job = { ...jobs.get(id), id: idOf(id), recorded: id };
      await checkJob(context, server, job, promises, when);
    }
    for (const [name, content] of uploads) {
      const promised = promises.uploads.get(name);
      if (promised !== undefined) await checkUpload(context, server, name, content, promised, when);
    }
    checkNames(context, directory, when);
  } catch (cause) {
    context.violation(`A server after a power cut (${when}): ${cause.message}`);
  } finally {
    await server.close();
    rmSync(directory, { recursive: true, force: true });
  }
}
