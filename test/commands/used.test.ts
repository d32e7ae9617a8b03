import { appendFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Usage } from '../../src/contract/usage.js';
import { Cli } from '../support/cli.js';
import { file } from '../support/form.mjs';
import { apps, sharedServer, TestServer } from '../support/server.js';
import { TestTokens } from '../support/tokens.js';
import { until } from '../support/until.mjs';

const tokens = new TestTokens();
for (const name of ['ana', 'bob']) tokens.create(name);
tokens.create('root', { role: 'admin' });
afterAll(() => tokens[Symbol.asyncDispose]());
const settings = { apps: [apps.probe, apps.shell], gpus: 2, flags: ['--tokens', tokens.file] };
const server = sharedServer(settings);
let cli: Cli;
beforeAll(async () => {
  cli = await Cli.create();
});
afterAll(() => cli[Symbol.asyncDispose]());

const run = (name: string, ...words: string[]) =>
  cli.run(['usage', ...words], { REMOTE_APP_SERVER: server.url, SERVICE_API_TOKEN: tokens.of(name) });
const form = { inputs: file('ct.nii', 'x'.repeat(20_000)) };
const rows = async (name: string, query = '') =>
  (await tokens.api(server, name).json<Usage>(`/usage${query}`)).usage;

describe('usage', () => {
  test('usage counts jobs, GPU hours and bytes by owner and app, and a user sees only their own', async () => {
    expect((await run('ana')).stderr).toContain('No job has ended');
    const [ana, bob] = [tokens.api(server, 'ana'), tokens.api(server, 'bob')];
    const first = await ana.run('infer', form);
    await ana.run('infer', { ...form, cpu: '1' });
    await bob.run('infer', form);
    const all = await until('all three are noted', async () => {
      const found = await rows('root');
      return found.reduce((sum, { jobs }) => sum + jobs, 0) === 3 ? found : null;
    });
    expect(all.map(({ owner, app, jobs }) => [owner, app, jobs]).sort()).toEqual([
      ['ana', 'probe', 2],
      ['bob', 'probe', 1],
    ]);
    const hers = all.find(({ owner }) => owner === 'ana');
    expect(hers?.bytes_in).toBeGreaterThan(40_000);
    expect(hers?.bytes_out).toBeGreaterThan(100);
    const { started_at, finished_at } = first.view;
    const hours = (Date.parse(finished_at ?? '') - Date.parse(started_at ?? '')) / 3_600_000;
    // Its results are kept, and it ended a moment ago.
    expect(hers?.bytes_kept).toBeGreaterThan(hers?.bytes_out ?? 0);
    expect(Date.now() - Date.parse(hers?.last_used ?? '')).toBeLessThan(60_000);
    // Packing does not count.
    expect(hers?.gpu_hours).toBeGreaterThan(0);
    expect(hers?.gpu_hours).toBeLessThan(hours + 1e-6);
    expect(await rows('bob')).toEqual(all.filter(({ owner }) => owner === 'bob'));
  });

  test('usage keeps removed jobs, and survives a crash that cut off the last line', async () => {
    const before = await rows('root');
    const ana = tokens.api(server, 'ana');
    for (const { job_id } of (await ana.json<{ jobs: { job_id: string }[] }>('/jobs')).jobs)
      await ana.fetch(`/jobs/${job_id}`, { method: 'DELETE' });
    await server.stop();
    appendFileSync(path.join(server.dataDirectory, 'usage'), '\n{"time":"2026-11-2');
    await server.start();
    expect(await rows('root')).toEqual(
      before.map((row) => ({ ...row, bytes_kept: row.owner === 'ana' ? 0 : expect.any(Number) })),
    );
    await ana.run('infer', form);
    await until('it is noted', async () => (await rows('ana'))[0]?.jobs === 3);
  });

  test('usage --since leaves out earlier entries, and refuses a value that is not a time', async () => {
    const line = (days: number, more: object) =>
      `\n${JSON.stringify({
        time: new Date(Date.now() - days * 86_400_000).toISOString(),
        job_id: '0123456789ab',
        owner: 'old',
        app: 'lungs',
        gpu_seconds: 7200,
        bytes_in: 1,
        bytes_out: 2,
        ...more,
      })}`;
    appendFileSync(path.join(server.dataDirectory, 'usage'), line(40, {}) + line(20, { owner: 'recent' }));
    const owners = async (...words: string[]) =>
      (JSON.parse((await run('root', '--json', ...words)).stdout) as Usage).usage.map(({ owner }) => owner);
    expect(await owners()).toContain('old');
    expect(await owners('--since', '30d')).toContain('recent');
    expect(await owners('--since', '30d')).not.toContain('old');
    expect((await run('root')).stdout).toMatch(/^old +lungs +1 +2\.00 +0\.00 +1 B +2 B +0 B +40 days ago$/m);
    expect((await run('root')).stdout).toMatch(/^all +\d/m);
    const { code, stderr } = await run('root', '--since', 'yesterday');
    expect(code, stderr).toBe(2);
    expect(stderr).toContain('--since takes a time such as 30d or 2026-11-01');
    for (const since of ['soon', '', '2026-11-01&since=2026-11-02']) {
      const refused = await tokens.api(server, 'ana').fetch(`/usage?since=${since}`);
      expect(refused.status).toBe(422);
    }
  });

  test('usage and the list of tokens show the last use and the bytes that are kept, even for an active job', async () => {
    const { job_id: id } = await tokens.api(server, 'bob').accepted('infer', {
      ...form,
      options: JSON.stringify({ config_overrides: [`wait=${server.gate().path}`] }),
    });
    const words = ['token', 'list', '--tokens', tokens.file];
    const environment = { REMOTE_APP_SERVER: server.url, SERVICE_API_TOKEN: tokens.of('root') };
    const { stdout } = await cli.run(words, environment);
    expect(stdout).toMatch(/^NAME .* LAST USE +KEPT +MAX JOBS +MAX UPLOAD\n/);
    expect(stdout).toMatch(/^ana +user +active .*(just now|ago) +\d[\d.]* KiB/m);
    expect(stdout).toMatch(/^bob +user +active .*now +\d[\d.]* KiB/m);
    expect(stdout).toMatch(/^root +admin +active .*never +0 B/m);
    const { tokens: listed } = JSON.parse((await cli.run([...words, '--json'], environment)).stdout);
    expect(listed[0]).toMatchObject({ last_used: expect.any(String), bytes_kept: expect.any(Number) });
    expect(listed[2]).toMatchObject({ last_used: null, bytes_kept: 0 });
    // The columns that only an admin may see are missing, but the list is shown.
    const asUser = await cli.run(words, { ...environment, SERVICE_API_TOKEN: tokens.of('ana') });
    expect([asUser.code, asUser.stdout.includes('KEPT')]).toEqual([0, false]);
    expect(asUser.stderr).toMatch(/^The last use and the bytes kept are not known: .*admin/);
    await tokens.api(server, 'bob').kill(id);
  });

  test('gpus shows an admin who has which GPU, and shows a user only their own and that the others are taken', async () => {
    const held = async (name: string, gpu: string) => {
      const gate = server.gate();
      const options = JSON.stringify({ config_overrides: [`wait=${gate.path}`] });
      return { gate, id: await tokens.api(server, name).running('infer', { ...form, gpu, options }) };
    };
    const hers = await held('ana', '1');
    const gpus = async (name: string, ...words: string[]) =>
      (
        await cli.run(['gpus', ...words], {
          REMOTE_APP_SERVER: server.url,
          SERVICE_API_TOKEN: tokens.of(name),
        })
      ).stdout;
    expect(await gpus('root')).toMatch(/^0 +NVIDIA H200 .* free$/m);
    for (const name of ['root', 'ana'])
      expect(await gpus(name)).toMatch(new RegExp(`^1 +NVIDIA H200 .* job ${hers.id} of ana$`, 'm'));
    expect(await gpus('bob')).toMatch(/^1 +NVIDIA H200 .* taken$/m);
    expect(await gpus('bob')).not.toContain(hers.id);
    expect(JSON.parse(await gpus('root', '--json')).gpus).toMatchObject([
      { id: 0, free: true },
      { id: 1, free: false, job: { job_id: hers.id, owner: 'ana' } },
    ]);
    hers.gate.open();
    await tokens.api(server, 'ana').ended(hers.id);
  });

  test('usage --since reads a date in the zone of the terminal, and the server reads a date in UTC and refuses a time without a zone', async () => {
    const { stdout } = await cli.run(['usage', '--json', '--since', '2026-11-01'], {
      REMOTE_APP_SERVER: server.url,
      SERVICE_API_TOKEN: tokens.of('root'),
      TZ: 'Asia/Tokyo',
    });
    expect((JSON.parse(stdout) as Usage).since).toBe('2026-10-31T15:00:00.000Z');
    const root = tokens.api(server, 'root');
    const since = async (text: string) => (await root.json<Usage>(`/usage?since=${text}`)).since;
    expect(await since('2026-11-01')).toBe('2026-11-01T00:00:00.000Z');
    expect(await since('2026-11-01T00:00%2B01:00')).toBe('2026-10-31T23:00:00.000Z');
    const refused = await root.fetch('/usage?since=2026-11-01T00:00:00');
    expect([refused.status, await refused.json()]).toEqual([
      422,
      { detail: expect.stringContaining('a time with its zone such as 2026-11-01T00:00:00Z') },
    ]);
  });

  test('Past usage still decides which user goes first after a restart', async () => {
    // Only jobs with runners are placed by usage from before the start.
    await using server = await TestServer.start({ ...settings, runners: true });
    await server.stop();
    const now = new Date().toISOString();
    const used = { time: now, job_id: '0123456789ab', owner: 'ana', app: 'probe', bytes_in: 0, bytes_out: 0 };
    writeFileSync(
      path.join(server.dataDirectory, 'usage'),
      `\n${JSON.stringify({ ...used, gpu_seconds: 36_000 })}`,
    );
    await server.start();
    const gate = server.gate();
    const waiting = {
      ...form,
      gpu: '0',
      options: JSON.stringify({ config_overrides: [`wait=${gate.path}`] }),
    };
    const [ana, bob, root] = ['ana', 'bob', 'root'].map((name) => tokens.api(server, name));
    const holds = await root?.accepted('infer', waiting);
    await root?.reaches(holds?.job_id ?? '', 'running');
    const hers = await ana?.accepted('infer', waiting);
    await ana?.reaches(hers?.job_id ?? '', 'waiting');
    const his = await bob?.accepted('infer', waiting);
    await until('he is in front of her', async () => {
      const [hersNow, hisNow] = [await ana?.job(hers?.job_id ?? ''), await bob?.job(his?.job_id ?? '')];
      return hisNow?.queue_position === 1 && hersNow?.queue_position === 2;
    });
    gate.open();
    await ana?.ended(hers?.job_id ?? '');
  });
});
