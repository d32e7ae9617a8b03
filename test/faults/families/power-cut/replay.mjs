import { rmSync } from 'node:fs';
import path from 'node:path';
import { checkArchive } from '../../invariants.mjs';
import { ended, request } from '../../support/api.mjs';
import { Server } from '../../support/server.mjs';
import { Promises } from './promises.mjs';
import { cutAfter, materialise } from './survivors.mjs';

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

/** Cuts the power after so many calls of the trace, and starts a server on what may be on the disk then. */
export async function replay(context, { jobs, data }, calls, count, random) {
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
  } catch (cause) {
    context.violation(`A server after a power cut (${when}): ${cause.message}`);
  } finally {
    await server.close();
    rmSync(directory, { recursive: true, force: true });
  }
}
