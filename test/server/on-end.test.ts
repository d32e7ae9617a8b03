import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import type { EndedJob } from '../../src/server/events.js';
import { deviceNames, type EndDocument, OnEnd } from '../../src/server/on-end.js';
import { least, steps } from '../support/form.js';
import { file } from '../support/form.mjs';
import { processesWith } from '../support/processes.js';
import { TestServer } from '../support/server.js';
import { temporary } from '../support/temporary.js';
import { until } from '../support/until.mjs';

const root = await temporary();
afterAll(() => root[Symbol.asyncDispose]());

let programs = 0;

/** A program for `--on-end`, with a directory of its own as $1. */
function program(lines: string): { readonly words: string; readonly directory: string } {
  programs += 1;
  const directory = path.join(root.path, `program-${programs}`);
  const script = `${directory}.sh`;
  writeFileSync(script, `#!/bin/sh\nmkdir -p "$1"; cd "$1"\n${lines}\n`);
  chmodSync(script, 0o755);
  return { words: `${script} ${directory}`, directory };
}

/** Keeps what it gets, and its environment, under a name that no other run has. */
const keeps = 'cat > doc.$$.tmp; env > env.$$; mv doc.$$.tmp doc.$$';

const namesIn = (directory: string, start: string): string[] =>
  existsSync(directory)
    ? readdirSync(directory).filter((name) => name.startsWith(start) && !name.endsWith('.tmp'))
    : [];

const documentsIn = (directory: string): EndDocument[] =>
  namesIn(directory, 'doc.').map((name) => JSON.parse(readFileSync(path.join(directory, name), 'utf8')));

/** Waits until the program has kept this many documents. */
const documents = (directory: string, count: number): Promise<EndDocument[]> =>
  until(`there are ${count} documents`, () => {
    const found = documentsIn(directory);
    return found.length >= count ? found : null;
  });

const iso = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

test('The on-end program is called for each end, without secrets and file names', async () => {
  const { words, directory } = program(keeps);
  await using server = await TestServer.start({
    runners: true,
    gpus: 1,
    token: 'the-secret',
    flags: ['--on-end', words, '--cpu-slots', '1'],
  });
  const { api } = server;
  const done = await api.run('infer', {
    inputs: file('patient-meier.nii'),
    ...steps('print=meier'),
    tag: 'meier',
    gpu: '0',
  });
  const failed = await api.run('infer', { ...least.infer, ...steps('exit=3'), cpu: '1' });
  const gate = server.gate();
  const held = await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`), cpu: '1' });
  const { job_id: waiting } = await api.accepted('evaluate', { ...least.evaluate, cpu: '1' });
  await api.reaches(waiting, 'waiting');
  await api.kill(waiting);
  await api.kill(held);
  const found = new Map((await documents(directory, 4)).map((each) => [each.job_id, each]));
  const { version } = await api.json<{ version: string }>('/repo_apps/probe');
  expect(found.get(done.id)).toEqual({
    job_id: done.id,
    app: 'probe',
    version,
    operation: 'infer',
    status: 'done',
    exit_code: 0,
    queue_seconds: expect.any(Number),
    run_seconds: done.view.run_seconds,
    devices: [expect.stringContaining('NVIDIA')],
    owner: null,
    submitted_at: done.view.created_at,
    ended_at: expect.stringMatching(iso),
  } satisfies EndDocument);
  expect(found.get(failed.id)).toMatchObject({ status: 'error', exit_code: 3, devices: ['CPU'] });
  expect(found.get(held)).toMatchObject({ status: 'killed', exit_code: 143, devices: ['CPU'] });
  expect(found.get(waiting)).toMatchObject({
    operation: 'evaluate',
    status: 'killed',
    version: null,
    exit_code: null,
    run_seconds: null,
    devices: [],
  });
  for (const name of namesIn(directory, '')) {
    const text = readFileSync(path.join(directory, name), 'utf8');
    expect(text).not.toMatch(/the-secret|meier|\.nii/);
    if (name.startsWith('doc.')) expect(text).not.toContain('/');
  }
});

test('An on-end program that fails is reported once, and jobs are unaffected', async () => {
  const { words, directory } = program(`${keeps}\necho 'no mail today' >&2\nexit 9`);
  await using server = await TestServer.start({ flags: ['--on-end', words] });
  for (let time = 0; time < 3; time += 1) {
    expect((await server.api.run('infer', least.infer)).view).toMatchObject({ status: 'done', error: null });
  }
  await documents(directory, 3);
  await server.stop();
  expect(server.stderr.match(/exit code 9: no mail today/g)).toHaveLength(1);
});

test('An on-end program that does not read its stdin, or is missing, does no harm', async () => {
  const { words, directory } = program('exec 0<&-; touch ran');
  await using server = await TestServer.start({ flags: ['--on-end', words] });
  const { api } = server;
  await api.run('infer', least.infer);
  await until('the program has run', () => existsSync(path.join(directory, 'ran')));
  chmodSync(words.split(' ')[0] ?? '', 0o644);
  expect((await api.run('infer', least.infer)).view.status).toBe('done');
  await until('the failure is reported', () => /--on-end failed .*EACCES/s.test(server.stderr));
  expect((await api.run('infer', least.infer)).view.status).toBe('done');
});

test('Only a few on-end programs run at once, and a server that stops ends them and leaves the rest to the next server', async () => {
  const slow = program('cat > doc.$$.tmp; mv doc.$$.tmp doc.$$; sleep 1000 & wait');
  await using server = await TestServer.start({ flags: ['--on-end', slow.words, '--grace', '600'] });
  const ids: string[] = [];
  for (let job = 0; job < 6; job += 1) ids.push((await server.api.run('infer', least.infer)).id);
  const first = await documents(slow.directory, 4);
  // The fifth and the sixth would have begun by now.
  expect((await server.api.run('infer', least.infer)).view.status).toBe('done');
  expect(documentsIn(slow.directory)).toHaveLength(4);
  await server.stop();
  expect(processesWith({ argument: slow.directory })).toEqual([]);

  writeFileSync(`${slow.directory}.sh`, `#!/bin/sh\ncd "$1"\n${keeps}\n`);
  await server.start();
  const all = await documents(slow.directory, 7);
  const told = all.map(({ job_id }) => job_id);
  expect(new Set(told).size).toBe(7);
  expect(told).toEqual(expect.arrayContaining([...ids, ...first.map(({ job_id }) => job_id)]));
});

test('A job is reported to the on-end program at most once, even after a crash', async () => {
  const { words, directory } = program(`${keeps}\n[ -e go ] || sleep 1000`);
  const flags = ['--on-end', words, '--grace', '600', '--on-exit', 'keep'];
  await using crashing = await TestServer.start({ ownProcess: true, flags });
  const { id } = await crashing.api.run('infer', least.infer);
  await documents(directory, 1);
  const { id: running, gate } = await crashing.heldJob();
  await crashing.crash();
  // It outlives the server that started it, as a crash leaves nobody to end it.
  for (const pid of processesWith({ argument: directory })) process.kill(-pid, 'SIGKILL');
  writeFileSync(path.join(directory, 'go'), '');
  gate.open();
  const { dataDirectory } = crashing;
  await using server = await TestServer.start({ runners: true, dataDirectory, flags });
  const { api } = server;
  await api.ended(running);
  const told = (await documents(directory, 2)).map(({ job_id }) => job_id);
  expect(told.sort()).toEqual([id, running].sort());
  // By the time that this one is told, an earlier one would have been told again.
  const { id: last } = await api.run('infer', least.infer);
  await documents(directory, 3);
  const all = documentsIn(directory).map(({ job_id }) => job_id);
  expect(all.sort()).toEqual([id, running, last].sort());
});

const end = (id: string): EndedJob => ({
  ...{ id, app: 'app', operation: 'infer', owner: null, state: 'done', error: null, isRefused: false },
  ...{
    exitCode: 0,
    version: null,
    gpus: [],
    gpuUuids: [],
    cpuSlots: 1,
    received: 1,
    bytes: 1,
    seconds: 1,
    peakMemory: null,
    peakGpuMemory: null,
    cpuSeconds: null,
    overuse: [],
    queued: 1,
  },
  acceptedAt: '2026-01-01T00:00:00.000Z',
  endedAt: '2026-01-01T00:00:02.000Z',
});

/** What was reported, and what `OnEnd` needs to run this program. */
function deps(words: string, begin: (end: EndedJob) => Promise<EndedJob | null>) {
  const reports: string[] = [];
  const report = (problem: string, cause: unknown) => reports.push(`${problem}: ${cause}`);
  const environment = { PATH: process.env.PATH };
  return { reports, deps: { command: words.split(' '), environment, begin, deviceNames: () => [], report } };
}

test('An on-end program that takes too long is killed together with its children', async () => {
  const { words, directory } = program(`trap '' TERM\n(trap '' TERM; sleep 1000) & touch ran; sleep 1000`);
  const { reports, deps: given } = deps(words, async (each) => each);
  const onEnd = new OnEnd(given, 1000);
  onEnd.enqueue(end('a'));
  await until('the failure is reported', () => reports.length > 0);
  expect(reports).toEqual([expect.stringMatching(/for job a; .*it was ended after 1 s/)]);
  expect(existsSync(path.join(directory, 'ran'))).toBe(true);
  await until('none of its processes is left', () => processesWith({ directory }).length === 0);
  await onEnd.close();
});

test('Jobs beyond the queue limit of the on-end program are left to the next server', async () => {
  const { words, directory } = program(keeps);
  let open = () => {};
  const opened = new Promise<null>((resolve) => {
    open = () => resolve(null);
  });
  const asked: string[] = [];
  const { reports, deps: given } = deps(words, async ({ id }) => {
    asked.push(id);
    return opened;
  });
  const onEnd = new OnEnd(given);
  for (let job = 0; job < 1010; job += 1) onEnd.enqueue(end(`job-${job}`));
  await until('four are asked for', () => asked.length > 0);
  expect(asked).toEqual(['job-0', 'job-1', 'job-2', 'job-3']);
  expect(reports).toEqual([expect.stringMatching(/for job job-1004; .*1000 other jobs wait for it/)]);
  open();
  await until('all others are asked for', () => asked.length === 1004);
  expect(asked).not.toContain('job-1004');
  await onEnd.close();
  expect(documentsIn(directory)).toEqual([]);
});

test('An on-end failure is reported again after a success, or if it is a different one', async () => {
  const { words, directory } = program('touch ran; [ ! -e fails ] || { cat fails >&2; exit 4; }');
  const { reports, deps: given } = deps(words, async (each) => each);
  const onEnd = new OnEnd(given);
  const [ran, fails] = ['ran', 'fails'].map((name) => path.join(directory, name)) as [string, string];
  mkdirSync(directory);
  for (const failure of ['no\nmail', 'no\nmail', 'no disk', null, 'no disk']) {
    rmSync(ran, { force: true });
    if (failure === null) rmSync(fails);
    else writeFileSync(fails, failure);
    onEnd.enqueue(end('a'));
    await until('it has run', () => existsSync(ran) && processesWith({ directory }).length === 0);
  }
  await onEnd.close();
  expect(reports.map((each) => each.replace(/^.* again: /, ''))).toEqual([
    'exit code 4: no mail',
    'exit code 4: no disk',
    'exit code 4: no disk',
  ]);
});

test('Devices are named by their UUIDs, else by their ids, else by their numbers', () => {
  const known = [
    { id: 0, uuid: 'GPU-b', name: 'L4' },
    { id: 1, uuid: 'GPU-a', name: 'H100' },
    { id: 2, uuid: '', name: 'A40' },
  ];
  const of = (gpus: readonly number[], gpuUuids: readonly string[] = []) =>
    deviceNames({ gpus, gpuUuids, cpuSlots: 0 }, known);
  expect([of([0], ['GPU-a']), of([0, 1], ['GPU-x']), of([2, 7], [''])]).toEqual([
    ['H100'],
    ['L4', 'H100'],
    ['A40', 'GPU 7'],
  ]);
  expect([of([]), deviceNames({ gpus: [], gpuUuids: [], cpuSlots: 2 }, known)]).toEqual([[], ['CPU']]);
});
