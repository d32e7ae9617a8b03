import { afterAll, describe, expect, test } from 'vitest';
import type { JobView } from '../../../src/contract/job.js';
import { least, steps } from '../../support/form.js';
import { sharedServer } from '../../support/server.js';
import { TestTokens } from '../../support/tokens.js';
import { until } from '../../support/until.mjs';

const tokens = new TestTokens();
for (const name of ['ana', 'bob']) tokens.create(name);
tokens.create('root', { role: 'admin' });
afterAll(() => tokens[Symbol.asyncDispose]());

const server = sharedServer({
  token: 'of-the-environment',
  flags: ['--tokens', tokens.file, '--grace', '60', '--cpu-slots', '8'],
});
const [ana, bob, root] = ['ana', 'bob', 'root'].map((name) => tokens.api(server, name)) as [
  ReturnType<TestTokens['api']>,
  ReturnType<TestTokens['api']>,
  ReturnType<TestTokens['api']>,
];
const nobody = 'ffffffffffff';

const listed = async (api: typeof ana, query = '') =>
  (await api.json<{ jobs: JobView[] }>(`/jobs${query}`)).jobs.map(({ job_id, owner }) => [job_id, owner]);

describe('a job and the token that it was submitted with', () => {
  test('A job is listed for the token that it was submitted with, and for an admin among all jobs', async () => {
    const [hers, his, the] = [
      await ana.run('infer', least.infer),
      await bob.run('infer', least.infer),
      await server.api.run('infer', least.infer),
    ];
    expect(await listed(ana)).toEqual([[hers.id, 'ana']]);
    expect(await listed(bob)).toEqual([[his.id, 'bob']]);
    expect(await listed(root)).toEqual([]);
    expect(await listed(server.api)).toEqual([[the.id, null]]);
    const all = [
      [the.id, null],
      [his.id, 'bob'],
      [hers.id, 'ana'],
    ];
    expect(await listed(root, '?all=1')).toEqual(all);
    expect(await listed(server.api, '?all=1')).toEqual(all);
    const refused = await ana.fetch('/jobs?all=1');
    expect([refused.status, await refused.json()]).toEqual([
      403,
      { detail: "Only an admin's token may list the jobs of all owners" },
    ]);
    const ofAll = await ana.fetch('/usage?all=1');
    expect([ofAll.status, await ofAll.json()]).toEqual([
      403,
      { detail: "Only an admin's token may ask for the use of all owners" },
    ]);
  });

  test('An admin sees, kills and removes the job of another token', async () => {
    const form = { ...least.infer, ...steps(`wait=${server.gate().path}`) };
    const id = await ana.running('infer', form);
    expect((await root.job(id)).owner).toBe('ana');
    expect((await root.kill(id)).status).toBe('killed');
    expect((await root.fetch(`/jobs/${id}`, { method: 'DELETE' })).status).toBe(200);
    expect((await ana.fetch(`/jobs/${id}`)).status).toBe(410);
    expect((await root.fetch(`/jobs/${id}`)).status).toBe(410);
    const toBob = await bob.fetch(`/jobs/${id}`);
    expect([toBob.status, await toBob.json()]).toEqual([404, { detail: 'Unknown job_id' }]);
  });

  test('A job still belongs to its token after a restart, and so does a removed one', async () => {
    const kept = await ana.run('infer', least.infer);
    const gone = await ana.run('infer', least.infer);
    await ana.fetch(`/jobs/${gone.id}`, { method: 'DELETE' });
    await server.restart();
    expect((await ana.job(kept.id)).owner).toBe('ana');
    expect((await ana.fetch(`/jobs/${gone.id}`)).status).toBe(410);
    for (const id of [kept.id, gone.id, nobody]) expect((await bob.fetch(`/jobs/${id}`)).status).toBe(404);
  });

  test("A job belongs to a token's name, and so it stays with its owner when the token is rotated", async () => {
    const { id } = await ana.run('infer', least.infer);
    tokens.rotate('ana');
    const again = tokens.api(server, 'ana');
    await until('the new token lets in', async () => (await again.fetch('/health')).ok);
    expect((await again.job(id)).owner).toBe('ana');
  });
});

test('An Idempotency-Key applies only to its owner', async () => {
  const key = { headers: { 'Idempotency-Key': 'the-same' } };
  const owners = [tokens.api(server, 'ana'), bob, root, server.api];
  const ids: string[] = [];
  for (const api of owners) ids.push((await api.accepted('infer', least.infer, key)).job_id);
  expect(new Set(ids).size).toBe(4);
  for (const [index, api] of owners.entries())
    expect((await api.accepted('infer', least.infer, key)).job_id).toBe(ids[index]);
  await server.restart();
  for (const [index, api] of owners.entries())
    expect((await api.accepted('infer', least.infer, key)).job_id).toBe(ids[index]);
});
