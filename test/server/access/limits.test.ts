import { readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { withLimits, withRoleLimits } from '../../../src/access/change-tokens.js';
import { type LimitTable, noLimits } from '../../../src/access/principal.js';
import { JobTable } from '../../../src/server/jobs/job-table.js';
import { Owners } from '../../../src/server/jobs/owners.js';
import { least, steps } from '../../support/form.js';
import { file } from '../../support/form.mjs';
import { fieldPart, filePart, multipart, submissionHead } from '../../support/multipart.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer, TestServer } from '../../support/server.js';
import { TestTokens } from '../../support/tokens.js';
import { until } from '../../support/until.mjs';
import { zip } from '../../support/zip.mjs';

const mebibyte = 2 ** 20;

const tokens = new TestTokens();
for (const name of ['ana', 'bob', 'cem', 'dan', 'eva', 'fay']) tokens.create(name);
const limit = (name: string, limits: LimitTable) => tokens.edit((before) => withLimits(before, name, limits));
tokens.edit((before) => withRoleLimits(before, 'user', { max_jobs: 2 }));
limit('bob', { max_jobs: 1 });
limit('cem', { max_upload: 10_000, max_jobs: null });
limit('dan', { max_kept: 50_000, max_jobs: null });
limit('fay', { max_kept: 10 * mebibyte, max_upload: 6 * mebibyte, max_jobs: null });
limit('eva', { max_gpus: 1, max_jobs: null });
afterAll(() => tokens[Symbol.asyncDispose]());

const server = sharedServer({
  gpus: 2,
  token: 'of-the-environment',
  flags: ['--tokens', tokens.file, '--cpu-slots', '32', '--max-jobs', '32'],
});
const api = (name: string) => tokens.api(server, name);
const onCpu = { cpu: '1' };
const waiting = () => ({ ...least.infer, ...onCpu, ...steps(`wait=${server.gate().path}`) });

describe('a limit of active jobs', () => {
  const killAll = async (name: string) => {
    const { jobs } = await api(name).json<{ jobs: { job_id: string }[] }>('/jobs');
    await Promise.all(jobs.map(({ job_id }) => api(name).kill(job_id)));
  };

  test('A limit of active jobs delays only the next jobs of its owner, in order', async () => {
    const ana = api('ana');
    const held = waiting();
    const first = await ana.running('infer', held);
    await ana.running('infer', held);
    const { job_id: second } = await ana.accepted('infer', held);
    // Uploads that come at the same time wait as well, behind it.
    const more = await Promise.all(Array.from({ length: 5 }, () => ana.accepted('infer', held)));
    const next = [second, ...more.map(({ job_id }) => job_id)];
    for (const id of next) {
      await until('it waits', async () => (await ana.job(id)).status === 'waiting');
      expect((await ana.job(id)).waiting_for).toBe(
        "a CPU slot: token 'ana' may have 2 jobs at once and has 2",
      );
    }
    expect((await api('bob').run('infer', { ...least.infer, ...onCpu })).view.status).toBe('done');
    await ana.kill(first);
    await until('the one that came first runs', async () => (await ana.job(second)).status === 'running');
    const states = await Promise.all(next.map(async (id) => (await ana.job(id)).status));
    expect(states.filter((status) => status === 'running').length).toBe(1);
    await killAll('ana');
  });

  test('Jobs that wait because of a limit of active jobs do not take the places of others', async () => {
    const flags = ['--tokens', tokens.file, '--max-jobs', '3', '--cpu-slots', '3'];
    await using small = await TestServer.start({ token: 'of-the-environment', flags });
    const ana = tokens.api(small, 'ana');
    const held = { ...least.infer, ...onCpu, ...steps(`wait=${small.gate().path}`) };
    await Promise.all(Array.from({ length: 5 }, () => ana.accepted('infer', held)));
    await small.api.accepted('infer', held);
    const [status, detail] = await small.api.refused('infer', held);
    expect([status, detail]).toEqual([
      429,
      'Server busy: 3 jobs are active, the most there may be; try again later',
    ]);
    // Who has as many as they may waits, also for a server that is full.
    await ana.accepted('infer', held);
  });

  test('A limit of active jobs is reloaded when it changes, and a limit of zero refuses every request', async () => {
    const held = waiting();
    const one = await api('bob').running('infer', held);
    const { job_id: two } = await api('bob').accepted('infer', held);
    limit('bob', { max_jobs: 2 });
    await until('it runs', async () => (await api('bob').job(two)).status === 'running');
    await Promise.all([one, two].map((id) => api('bob').kill(id)));
    limit('bob', { max_jobs: 0 });
    await until('it is refused', async () => {
      const answer = await api('bob').submit('infer', { ...least.infer, ...onCpu });
      return answer.status === 429 && (await answer.text()).includes("Token 'bob' may have no active jobs");
    });
    limit('bob', { max_jobs: 1 });
    await until(
      'it is accepted',
      async () => (await api('bob').submit('infer', { ...least.infer, ...onCpu })).ok,
    );
  });

  test('A limit of active jobs lets a thousand jobs wait, and refuses the next', () => {
    const principal = {
      name: 'ana',
      role: 'user',
      limits: { ...noLimits, max_jobs: { max: 2, whose: "of the token 'ana'" } },
      apps: null,
    } as const;
    const waiting = Array.from({ length: 1001 }, () => ({ request: { owner: 'ana' }, isFinal: false }));
    const jobs = { values: () => waiting } as unknown as JobTable;
    const owners = new Owners(jobs, 9, { maxJobs: (owner) => (owner === 'ana' ? 2 : null) });
    owners.take(principal, undefined);
    expect(() => owners.take(principal, undefined)).toThrow(
      "Server busy: 1000 jobs of token 'ana' wait for its limit of 2 active jobs (the limit of the token 'ana'), the most that may wait",
    );
    // An eighth of the places is for owners who have no job. Without a name, everybody has the same owner.
    const few = new Owners(new JobTable(), 9, { maxJobs: () => null });
    const ben = { ...principal, name: 'ben', limits: noLimits };
    for (let job = 0; job < 7; job += 1) few.take(ben, undefined);
    expect(() => few.take(ben, undefined)).toThrow(
      'Server busy: 7 of 9 jobs are active, and the remaining places are for people without an active job; try again later',
    );
    few.take(principal, undefined);
    few.take({ ...ben, name: null }, undefined);
    // Those that wait for the limit take no places of others.
    const admin = { ...principal, name: null, limits: noLimits };
    for (let job = 0; job < 7; job += 1) owners.take(admin, undefined);
    expect(() => owners.take(admin, undefined)).toThrow(
      'Server busy: 9 jobs are active, the most there may be',
    );
  });
});

test('A limit of uploads is named in refusals, and by GET /limits', async () => {
  const cem = api('cem');
  expect(await cem.json('/limits')).toMatchObject({ max_upload_size: 10_000, max_file_size: 10_000 });
  const form = { inputs: file('ct.nii', 'x'.repeat(300_000)), ...onCpu };
  expect(await cem.refused('infer', form)).toEqual([
    413,
    "File 'ct.nii' is larger than the limit of 9.8 KiB of the token 'cem'",
  ]);
  expect((await cem.run('infer', { inputs: file('ct.nii', 'x'.repeat(1000)), ...onCpu })).view.status).toBe(
    'done',
  );
  expect(await server.api.json('/limits')).toMatchObject({ max_jobs: null, max_upload_size: 6 * 2 ** 30 });
});

test('A storage limit counts what jobs have left, and is freed when they are removed', async () => {
  const dan = api('dan');
  const small = { inputs: file('ct.nii', 'x'.repeat(1000)), ...onCpu };
  const { id } = await dan.run('infer', { ...small, ...steps('shell=head -c 60000 /dev/zero > big') });
  expect(await dan.refused('infer', small)).toEqual([
    507,
    expect.stringMatching(
      /^The jobs of token 'dan' keep [\d.]+ KiB of the 48.8 KiB that they may keep \(the limit of the token 'dan'\), which leaves too little/,
    ),
  ]);
  // Also after a restart, when it is measured again.
  await server.restart();
  const answers = await Promise.all(Array.from({ length: 8 }, () => dan.submit('infer', small)));
  expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(507));
  for (const { job_id } of (await dan.json<{ jobs: { job_id: string }[] }>('/jobs')).jobs) {
    await dan.kill(job_id);
    await dan.fetch(`/jobs/${job_id}`, { method: 'DELETE' });
  }
  expect((await dan.fetch(`/jobs/${id}`)).status).toBe(410);
  expect((await dan.run('infer', small)).view.status).toBe('done');
  const large = { inputs: file('ct.nii', 'x'.repeat(60_000)), ...onCpu };
  expect((await dan.refused('infer', large))[0]).toBe(507);
});

describe('a storage limit', () => {
  const fay = api('fay');
  const zeros = (size: number, statedSize = size) =>
    zip([{ name: 'zeros', content: Buffer.alloc(size), deflated: true, statedSize }]);
  const large = zeros(40 * mebibyte);
  const volume = (archive: Buffer<ArrayBuffer>) => ({
    inputs: file('scan.konfaidir.zip', archive),
    ...onCpu,
  });
  const refusal = [
    507,
    expect.stringMatching(
      /^The jobs of token 'fay' keep [\d.]+ \w+ of the 10\.0 MiB that they may keep \(the limit of the token 'fay'\), which leaves too little/,
    ),
  ];

  test.for([
    ['an archive', 'infer', volume(large)],
    ['an archive that lies about its size', 'infer', volume(zeros(40 * mebibyte, 10))],
    ['a data set', 'fine_tune', { dataset: file('data.zip', large), ...onCpu }],
    [
      'archives that only together are too large',
      'infer',
      { inputs: Array(3).fill(volume(zeros(4 * mebibyte)).inputs), ...onCpu },
    ],
  ] as const)('A limit of what is kept holds for what is extracted from %s', async ([, operation, form]) => {
    const before = server.jobDirectories();
    const answers = await Promise.all(Array.from({ length: 5 }, () => fay.refused(operation, form)));
    expect(answers).toEqual(Array(5).fill(refusal));
    expect(server.jobDirectories()).toEqual(before);
  });

  test('A storage limit counts the extracted size of archives while their jobs are active', async () => {
    const form = { ...waiting(), ...volume(zeros(4 * mebibyte)) };
    const answers = await Promise.all(Array.from({ length: 5 }, () => fay.submit('infer', form)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 507, 507, 507]);
    expect(await fay.refused('infer', form)).toEqual(refusal);
    expect(await fay.refused('infer', volume(zeros(3 * mebibyte)))).toEqual(refusal);
    const { jobs } = await fay.json<{ jobs: { job_id: string }[] }>('/jobs');
    expect(jobs.length).toBe(2);
    for (const { job_id } of jobs) {
      await fay.kill(job_id);
      await fay.fetch(`/jobs/${job_id}`, { method: 'DELETE' });
    }
    const { id, view } = await fay.run('infer', volume(zeros(8 * mebibyte)));
    expect(view.status).toBe('done');
    await fay.fetch(`/jobs/${id}`, { method: 'DELETE' });
  });

  test('A storage limit counts the size of an upload whose length was not stated', async () => {
    const before = server.jobDirectories();
    const send = async (size: number) => {
      await using connection = await RawConnection.open(server.url);
      const token = `Authorization: Bearer ${tokens.of('fay')}`;
      connection.write(submissionHead('/apps/probe/infer', 'Transfer-Encoding: chunked', token));
      const body = multipart([fieldPart('cpu', '1'), filePart('inputs', 'scan.konfaidir.zip', zeros(size))]);
      connection.write(`${body.length.toString(16)}\r\n`);
      connection.write(body);
      connection.write('\r\n0\r\n\r\n');
      const { status, body: answer } = await connection.answer();
      return { status, ...(JSON.parse(answer) as { detail?: string; job_id?: string }) };
    };
    const { status, detail } = await send(11 * mebibyte);
    expect([status, detail]).toEqual(refusal);
    expect(server.jobDirectories()).toEqual(before);
    expect((await send(mebibyte)).status).toBe(200);
  });
});

test('A limit of simultaneous GPUs keeps a job waiting, and refuses one that could never run', async () => {
  const eva = api('eva');
  const form = { ...least.infer, ...steps(`wait=${server.gate().path}`) };
  expect(await eva.refused('infer', { ...form, gpu: '0,1' })).toEqual([
    422,
    "Field 'gpu' asks for 2 GPUs; token 'eva' may have 1 at once (the limit of the token 'eva')",
  ]);
  const first = await eva.accepted('infer', form);
  await eva.reaches(first.job_id, 'running');
  const second = await eva.accepted('infer', form);
  expect((await eva.reaches(second.job_id, 'waiting')).waiting_for).toBe(
    "a free GPU: token 'eva' may have 1 at once and has 1",
  );
  limit('fay', { max_kept: 10 * mebibyte, max_upload: 6 * mebibyte, max_jobs: null });
  limit('eva', { max_gpus: 2 });
  const record = path.join(server.jobDirectory(second.job_id), 'job.json');
  await until('it runs, though nobody asks anything', () =>
    /"state": "running"/.test(readFileSync(record, 'utf8')),
  );
  for (const { job_id } of [first, second]) await eva.kill(job_id);
});

test('The limits of the server apply to everyone unless the token file sets others', async () => {
  await using file = new TestTokens();
  for (const name of ['gus', 'hal']) file.create(name);
  file.edit((before) => withLimits(before, 'hal', { max_jobs: 5 }));
  const flags = ['--tokens', file.file, '--user-max-jobs', '2', '--user-max-kept', '1MiB'];
  await using own = await TestServer.start({ flags });
  const limitsOf = async (name: string) => {
    const { max_jobs, max_kept } = await file.api(own, name).json<Record<string, number>>('/limits');
    return [max_jobs, max_kept];
  };
  expect([await limitsOf('gus'), await limitsOf('hal')]).toEqual([
    [2, mebibyte],
    [5, mebibyte],
  ]);
  file.edit((before) => withRoleLimits(before, 'user', { max_jobs: 3, max_kept: null }));
  await until('it is read', async () => (await limitsOf('gus'))[0] === 3);
  expect(await limitsOf('gus')).toEqual([3, null]);
});
