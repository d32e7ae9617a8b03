import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { type Fake, fakeService, jobId } from '../support/fake-service.js';
import { ScreenTerminal } from '../support/screen-terminal.js';
import { json } from '../support/scripted-server.js';
import { plant } from '../support/temporary.js';
import { zipOf } from '../support/zip.mjs';

const result = zipOf({ 'mask.nii': 'mask' });

const own = { job_id: jobId, status: 'running', app: 'tissue', operation: 'infer', inputs: ['a.nii'] };
const earlier = [170, 180, 190, 600].map((run_seconds, index) => ({
  ...{ ...own, job_id: `job${index}`, status: 'done', run_seconds },
}));

/** A service that lists these jobs, and whose log goes on once it was asked for them. */
async function infer(jobs: readonly unknown[] | null, ...more: string[]) {
  await using cli = await Cli.create();
  await plant(cli.directory, { 'a.nii': 'a' });
  let wasAsked = () => {};
  const asked = new Promise<void>((resolve) => {
    wasAsked = resolve;
  });
  const override: Fake['override'] = ({ method, url }, response) => {
    if (method !== 'GET' || !/^\/jobs(\?|$)/.test(url)) return false;
    if (jobs === null) json(response, 404, { detail: 'Not Found' });
    else json(response, 200, { jobs });
    response.once('close', wasAsked);
    return true;
  };
  const lines = ['one', () => asked.then(() => 'two'), 'three'];
  await using server = await fakeService({ result, override, lines });
  const ended = await cli.run(['infer', 'a.nii', '--server', server.url, ...more]);
  const output = await readdir(path.join(cli.directory, 'Output'));
  return { ...ended, output };
}

test('once its job runs, infer says how long the last ones took', async () => {
  const { code, stderr, output } = await infer([own, ...earlier]);
  expect([code, output]).toEqual([0, expect.arrayContaining(['mask.nii'])]);
  expect(stderr).toContain('This takes about 3 min, as the last 4 cases did\n');
});

test('of a single earlier job it is said that there is one', async () => {
  const { stderr } = await infer([own, ...earlier.slice(0, 1)]);
  expect(stderr).toContain('This takes about 3 min, as the last case did\n');
});

test.each([
  ['without earlier jobs', [own]],
  ['whose server has no list of jobs', null],
  ['that the list does not have', earlier],
])('infer says nothing of a job %s', async (_, jobs) => {
  const { code, stderr } = await infer(jobs);
  expect([code, stderr]).toEqual([0, expect.not.stringContaining('This takes')]);
});

test('jobs of one state show the time that is left by those of others', async () => {
  await using cli = await Cli.create();
  const started_at = new Date(Date.now() - 60_000).toISOString();
  const jobs = [{ ...own, started_at }, ...earlier];
  await using server = await fakeService({
    override: ({ url }, response) => {
      if (!/^\/jobs(\?|$)/.test(url)) return false;
      json(response, 200, { jobs });
      return true;
    },
  });
  const { stdout } = await cli.run(['jobs', '--status', 'running', '--server', server.url]);
  expect(stdout.trim().split('\n')).toEqual([
    expect.stringMatching(/ TIME LEFT$/),
    expect.stringMatching(/ about 2 min$/),
  ]);
});

test('on a terminal, jobs come with the newest last, and fit it', async () => {
  await using cli = await Cli.create();
  const input = 'sub-0123_ses-baseline_acq-highres_run-1_T1w.nii.gz';
  const jobs = [own, ...earlier].map((job) => ({ ...job, inputs: [input], tag: 'a-study-of-many-knees' }));
  await using server = await fakeService({
    override: ({ url }, response) => {
      if (!/^\/jobs(\?|$)/.test(url)) return false;
      json(response, 200, { jobs });
      return true;
    },
  });
  const args = ['jobs', '--server', server.url];
  await using terminal = new ScreenTerminal(cli, args, { columns: 80 });
  expect(await terminal.ended()).toBe(0);
  const [heading, ...rows] = terminal.rows.filter((row) => row !== '');
  expect(heading).toMatch(/^JOB /);
  // A line that does not fit would take two rows.
  expect(rows.map((row) => row.split(' ')[0])).toEqual(['job3', 'job2', 'job1', 'job0', jobId]);
  const { stdout } = await cli.run([...args, '-q']);
  expect(stdout.trim().split('\n')).toEqual([jobId, 'job0', 'job1', 'job2', 'job3']);
});
