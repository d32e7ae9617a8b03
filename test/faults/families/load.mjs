/** As many jobs and streams as the limits allow and one more, and clients that do not read. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { file } from '../../support/form.mjs';
import { unzip } from '../../support/unzip.mjs';
import { ended, kill, listJobs, logOf, request, steps, submit, trySubmit } from '../support/api.mjs';
import { Connection } from '../support/connection.mjs';
import { HealthWatch } from '../support/health-watch.mjs';
import { letTimePass } from '../support/pass-time.mjs';
import { memoryOf } from '../support/processes.mjs';
import { Server } from '../support/server.mjs';
import { until } from '../support/until.mjs';

/** `--max-jobs` of the server. */
const maxJobs = 32;

/** At most 32 jobs are active, however many come at once; each place that is released can be used again. */
async function fullServer(context, server) {
  const gate = path.join(context.scratch, 'never');
  const form = { inputs: file('scan.nii'), options: steps({ gate }) };
  const send = () => trySubmit(server, 'witness', 'infer', form);
  const watch = new HealthWatch(context, server);
  for (let round = 0; round < 2; round += 1) {
    const answers = await Promise.all(Array.from({ length: maxJobs + 8 }, send));
    const accepted = answers.filter(({ status }) => status === 200);
    const refused = answers.filter(({ status }) => status === 429);
    context.count('submissions at the limit of active jobs', answers.length);
    context.check(
      accepted.length === maxJobs,
      `${accepted.length} of ${answers.length} submissions were accepted`,
    );
    context.check(
      refused.length === 8,
      `${refused.length} of ${answers.length} submissions were told that it is busy`,
    );
    for (const { text, headers } of refused) {
      const isClear = /^\{"detail":"Server busy/.test(text) && Number(headers.get('retry-after')) > 0;
      context.check(isClear, `A server with ${maxJobs} jobs answers ${text}`);
    }
    const active = (await listJobs(server)).filter(({ finished_at }) => finished_at === null);
    await Promise.all(active.map(({ job_id }) => kill(server, job_id)));
  }
  await watch.end();
}

const maxStreams = 200;

async function stream(server, id) {
  const connection = await Connection.open(server.url);
  await connection.write(`GET /jobs/${id}/logs HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  await connection.until('\r\n\r\n');
  return connection;
}

const statusOf = (connection) => Number(connection.received.toString('latin1', 9, 12));

/** 200 streams may be open; the 201st is refused, and accepted after another one is closed. */
async function manyStreams(context, server) {
  const gate = path.join(context.scratch, 'never');
  const form = { inputs: file('scan.nii'), options: steps({ gate }) };
  const ids = [];
  for (let count = 0; count <= maxStreams; count += 1)
    ids.push(await submit(server, 'witness', 'infer', form));
  const watch = new HealthWatch(context, server);
  const streams = await Promise.all(ids.slice(0, maxStreams).map((id) => stream(server, id)));
  context.count('log streams at once', streams.length);
  const refused = streams.filter((each) => statusOf(each) !== 200);
  context.check(refused.length === 0, `${refused.length} of ${maxStreams} log streams were refused`);
  for (const [id, which] of [
    [ids[maxStreams], 'the 201st stream'],
    [ids[0], 'a second stream of one job'],
  ]) {
    const other = await stream(server, id);
    context.check(statusOf(other) === 429, `${which} was answered with ${statusOf(other)}`);
    other.close();
  }
  await Promise.all(streams.map((each) => each.until('accepted: infer')));
  streams.pop().close();
  await until('a place among the streams is free again', async () => {
    const next = await stream(server, ids[maxStreams]);
    const isOpen = statusOf(next) === 200;
    if (isOpen) streams.push(next);
    else next.close();
    return isOpen;
  });
  await Promise.all(ids.map((id) => kill(server, id)));
  await Promise.all(streams.map((each) => each.until('__ERROR__ Killed by user')));
  const silent = streams.filter((each) => !each.received.includes('__ERROR__ Killed by user'));
  context.check(silent.length <= 1, `${silent.length} log streams ended without the marker`);
  for (const each of streams) each.close();
  await watch.end();
}

const get = (target) => `GET ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`;

/**
 * Requests that wait on their connection behind a stream that does not end, and a client that then leaves: what
 * they had taken, a stream's place or a hold on a result, is given back.
 */
async function pipelined(context, server) {
  const gate = path.join(context.scratch, 'never');
  const done = await submit(server, 'witness', 'infer', { inputs: file('scan.nii') });
  await ended(server, done);
  const form = { inputs: file('scan.nii'), options: steps({ gate }) };
  const [first, second] = [
    await submit(server, 'witness', 'infer', form),
    await submit(server, 'witness', 'infer', form),
  ];
  const connection = await Connection.open(server.url);
  await connection.write(
    get(`/jobs/${first}/logs`) + get(`/jobs/${second}/logs`) + get(`/jobs/${done}/result`),
  );
  await connection.until('accepted: infer');
  connection.close();
  context.count('requests behind a stream that is cut', 2);
  await context.attempt('The log of a job whose stream was asked for behind another', async () => {
    const open = async () => {
      const next = await Connection.open(server.url);
      await next.write(get(`/jobs/${second}/logs`));
      await next.until('\r\n\r\n');
      const isOpen = next.received.includes('200 OK');
      next.close();
      return isOpen;
    };
    await until('its stream can be opened', open, 10_000);
  });
  for (const id of [first, second]) await kill(server, id);
  // Without a grace period it is removed at once, unless the server still counts a download.
  await context.attempt('The result of a job that was asked for behind a stream', async () => {
    await server.kill();
    letTimePass(server);
    await server.start(['--grace', '2']);
    const again = await Connection.open(server.url);
    const waiting = await submit(server, 'witness', 'infer', form);
    await again.write(get(`/jobs/${waiting}/logs`) + get(`/jobs/${done}/result`));
    await again.until('accepted: infer');
    again.close();
    await until('it expires', () => !existsSync(server.jobDirectory(done)), 15_000);
    await kill(server, waiting);
  });
  const { status } = await request(server, '/health');
  context.check(status === 200, `/health answers ${status}`);
}

const logReaders = 20;
const resultReaders = 40;
/** Bytes that the server may keep in memory for each reader that does not read: buffers, not whole logs or results. */
const boundForEach = 8 * 2 ** 20;

async function paused(server, path) {
  const connection = await Connection.open(server.url);
  connection.socket.pause();
  await connection.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
  return connection;
}

/** Readers that open a large log or result and take nothing: the server holds none of it in memory for them. */
async function slowReaders(context, server) {
  const form = (settings) => ({ inputs: file('scan.nii'), options: steps(settings) });
  const result = await submit(server, 'witness', 'infer', form({ noise: 12_000 }));
  await ended(server, result);
  const logs = [];
  for (let count = 0; count < logReaders; count += 1)
    logs.push(await submit(server, 'witness', 'infer', form({ lines: 30_000 })));
  for (const id of logs) await ended(server, id);
  const before = memoryOf(server.pid);
  const watch = new HealthWatch(context, server);
  const readers = await Promise.all([
    ...logs.map((id) => paused(server, `/jobs/${id}/logs`)),
    ...Array.from({ length: resultReaders }, () => paused(server, `/jobs/${result}/result`)),
  ]);
  context.count('readers that do not read', readers.length);
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const growth = memoryOf(server.pid) - before;
  context.highest('memory taken by slow readers', Math.max(0, growth), 'bytes');
  const bound = readers.length * boundForEach;
  context.check(growth <= bound, `${readers.length} slow readers took ${growth} bytes of memory`);
  // A reader that reads later gets everything; one that leaves releases its stream.
  const [first, ...others] = readers;
  first.socket.resume();
  await first.until('__DONE__');
  const lines = first.received.toString('latin1').match(/data: line \d+ of 30000\n/g)?.length;
  context.check(lines === 30_000, `A slow reader of a log got ${lines} of 30000 lines`);
  for (const each of [first, ...others]) each.close();
  const log = await logOf(server, logs[1]);
  context.check(log.at(-1) === '__DONE__', `The log of a slow reader that left ends with ${log.at(-1)}`);
  unzip((await request(server, `/jobs/${result}/result`)).bytes);
  await watch.end();
  for (const id of logs) await kill(server, id);
}

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
  await served(context, 'Jobs up to the limit', ['--max-jobs', String(maxJobs)], fullServer);
  await served(context, 'Log streams up to the limit', ['--max-jobs', '250'], manyStreams);
  await served(context, 'Slow readers', ['--max-jobs', '100'], slowReaders);
  await served(context, 'Requests that wait behind another', [], pipelined);
}
