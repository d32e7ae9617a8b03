import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { gatewayTo } from '../client/gateway/support.js';
import * as canary from '../support/canary-volumes.js';
import { Cli } from '../support/cli.js';
import { sharedServer } from '../support/server.js';
import { plant } from '../support/temporary.js';
import { WireTap } from '../support/wire-tap.js';

const size = 1.25 * (1 << 20);
/** Unique content that compresses quickly. */
const unique = () => Buffer.alloc(size, randomUUID());
/** Most bytes on the wire for a command that sends no file. */
const next = 64 << 10;

describe('a command whose files are already on the server', () => {
  const server = sharedServer();
  let cli: Cli;
  let tap: WireTap;
  beforeAll(async () => {
    cli = await Cli.create();
    tap = await WireTap.before(server.url);
  });
  afterAll(async () => {
    await tap[Symbol.asyncDispose]();
    await cli[Symbol.asyncDispose]();
  });
  const run = async (...words: string[]) => {
    tap.forget();
    const ended = await cli.run(words, { REMOTE_APP_SERVER: tap.url, REMOTE_APP_APP: 'probe' });
    expect(ended.code, ended.stderr).toBe(0);
    return ended;
  };

  test('A second submission of the same files says that they are on the server already, and sends none of them', async () => {
    await plant(cli.directory, { 'a/ct.nii': unique(), 'a/pet.nii': unique(), 'a/gt.nii': unique() });
    const words = ['evaluate', 'a/ct.nii', '-i', 'a/pet.nii', '--gt', 'a/gt.nii', '--detach'];
    const first = await run(...words, '--json');
    expect(tap.length).toBeGreaterThan(3 * size);
    const second = await run(...words, '--json');
    expect(second.stderr).toContain('3 of 3 files are already on the server (3.8 MiB not sent)\n');
    expect(tap.length).toBeLessThan(next);
    const { job_id: _, ...document } = JSON.parse(second.stdout);
    expect(Object.keys(document)).toEqual(Object.keys(JSON.parse(first.stdout)).slice(1));
    const { job_id: id } = JSON.parse(second.stdout);
    const { files } = await server.api.ended(id).then(() => server.api.recorded(id));
    expect(files['--inputs']?.map((group) => group.map(([file]) => path.basename(file)))).toEqual([
      ['ct.nii'],
      ['pet.nii'],
    ]);
    const usage = await run('usage');
    expect(usage.stdout).toMatch(/\d+ uploads? kept, \d+\.\d MiB\n$/);
  });

  test('A cohort and its retry send no file that is on the server already', async () => {
    const cases = Object.fromEntries(['one', 'two', 'three'].map((each) => [`b/${each}.nii`, unique()]));
    await plant(cli.directory, cases);
    await run('infer', '--each', 'b', '-o', 'Out1', '--at-most', '2');
    expect(tap.length).toBeGreaterThan(3 * size);
    await run('infer', '--each', 'b', '-o', 'Out2', '--at-most', '2', '--tta', '2');
    expect(tap.length).toBeLessThan(next);
    await run('infer', 'b/one.nii', '-o', 'Single');
    const { stdout } = await run('jobs', '--json');
    const [job] = JSON.parse(stdout).jobs;
    await run('retry', job.job_id, '-o', 'Again');
    expect(tap.length).toBeLessThan(next);
  });

  test('A fine-tuning with the same data set sends nothing again', async () => {
    await plant(cli.directory, { 'set/p1/ct.nii': unique(), 'set/p2/ct.nii': unique() });
    const words = ['fine-tune', 'set', '--name', 'new', '--detach'];
    await run(...words);
    expect(tap.length).toBeGreaterThan(2 * size);
    const { stderr } = await run(...words);
    expect(stderr).toContain('1 of 1 file is already on the server');
    expect(tap.length).toBeLessThan(next);
  });

  test('A command whose files are de-identified sends none of them again', async () => {
    const word = 'Quokkavale';
    const nifti = Buffer.concat([canary.nifti(word), unique()]);
    await plant(cli.directory, { 'c/ct.nii': nifti });
    expect((await run('infer', 'c/ct.nii', '--deidentify', '--dry-run')).stdout).toContain('case-0001.nii');
    await run('infer', 'c/ct.nii', '--deidentify', '--detach');
    expect(tap.sent.includes(word)).toBe(false);
  });

  test('Uploads also pass through forward', async () => {
    await plant(cli.directory, { 'd/ct.nii': unique() });
    await using gateway = await gatewayTo(tap.url, { token: undefined });
    const infer = ['infer', 'd/ct.nii', '--detach', '--server', gateway.url, '--app', 'probe'];
    for (const [least, most] of [
      [size, 2 * size],
      [0, next],
    ] as const) {
      tap.forget();
      const { code, stderr } = await cli.run(infer, { SERVICE_API_TOKEN: gateway.secret });
      expect(code, stderr).toBe(0);
      expect(tap.length).toBeGreaterThan(least);
      expect(tap.length).toBeLessThan(most);
    }
  });
});
