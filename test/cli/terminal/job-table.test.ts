import stringWidth from 'fast-string-width';
import { expect, test } from 'vitest';
import { listJobs } from '../../../src/cli/jobs/job-text.js';
import { Colours } from '../../../src/cli/terminal/index.js';
import { jobAnswer } from '../../../src/client/connection/answer-schemas.js';

const plain = new Colours({}, {});
const now = Date.parse('2026-11-26T12:00:00Z');
const ago = (seconds: number) => new Date(now - seconds * 1000).toISOString();

function job(id: number, facts: Readonly<Record<string, unknown>>) {
  const job_id = `aa01bc23de4${id}`;
  const checked = jobAnswer(job_id).check({
    ...{
      job_id,
      status: 'done',
      app: 'VBoussot/ImpactSynth:MR',
      operation: 'infer',
      tag: 'study-of-knees-7',
    },
    ...{ inputs: [`sub-0${id}_ses-baseline_T1w.nii.gz`], owner: 'ana', assigned_gpus: [0] },
    ...{ created_at: ago(4000), started_at: ago(3000), finished_at: ago(2900), run_seconds: 100 },
    ...facts,
  });
  if (!checked.success) throw new Error('it is not accepted as a job');
  return checked.data;
}

const running = { status: 'running', started_at: ago(100), finished_at: null, run_seconds: null };
const jobs = [job(1, running), job(2, {}), job(3, { run_seconds: 400 }), job(4, { run_seconds: 220 })];

test.each([60, 80, 100, 120])('a list of jobs fits a terminal of %i columns', (columns) => {
  const lines = listJobs(jobs, now, plain, true, columns);
  expect(lines).toHaveLength(5);
  for (const line of lines) expect(stringWidth(line)).toBeLessThanOrEqual(columns);
  // These stay as they are, and names stay distinguishable.
  for (const { job_id, status } of jobs)
    expect(lines.join('\n')).toMatch(new RegExp(`${job_id} .*${status}`));
  expect(new Set(lines).size).toBe(5);
});

test('on 80 columns names are cut in their middle before a column goes, the least important one first', () => {
  const [heading, first] = listJobs(jobs, now, plain, false, 80);
  expect(heading).not.toMatch(/GPUS|OPERATION/);
  expect(heading).toMatch(/^JOB +STATUS +APP +/);
  expect(first).toMatch(/VBo\S*…\S*:MR/);
});

test('elsewhere nothing is cut', () => {
  const [, first] = listJobs(jobs, now, plain);
  expect(first).toMatch(
    /infer +VBoussot\/ImpactSynth:MR +study-of-knees-7 +sub-01_ses-baseline_T1w\.nii\.gz +0 /,
  );
});

test('a running job shows the time that is left, by the median of those before it', () => {
  const [heading, first, second] = listJobs(jobs, now, plain);
  expect(heading).toMatch(/RUN TIME +TIME LEFT$/);
  // The median is 220 s, and it has been running for 100 s.
  expect(first).toMatch(/ 2 min +about 2 min$/);
  expect(second).toMatch(/ 2 min$/);
});

test.each<[string, Readonly<Record<string, unknown>>]>([
  ['of another app', { app: 'other' }],
  ['of another operation', { operation: 'evaluate' }],
  ['that failed', { status: 'error' }],
  ['with another number of inputs', { inputs: ['a.nii', 'b.nii'] }],
  ['on the CPU', { assigned_gpus: [] }],
  ['of a moment', { run_seconds: 2 }],
  ['of a server that does not say how long they ran', { run_seconds: null }],
])('jobs %s tell nothing', (_, facts) => {
  const [heading] = listJobs([job(1, running), job(2, facts)], now, plain);
  expect(heading).toMatch(/RUN TIME$/);
});

test('a job that takes longer than those before it shows nothing', () => {
  const late = job(1, { ...running, started_at: ago(500) });
  expect(listJobs([late, job(2, {})], now, plain)[0]).toMatch(/RUN TIME$/);
});
