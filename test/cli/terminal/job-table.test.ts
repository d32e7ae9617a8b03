import { expect, test } from 'vitest';
import { describeJob } from '../../../src/cli/jobs/job-text.js';
import { Colours } from '../../../src/cli/terminal/index.js';
import { formatTime } from '../../../src/cli/terminal/time-text.js';
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

const connection = { nextCommand: (words: string) => `remote-app ${words} --profile lab` };

test('The run time of a job is the one that the server reports, even if there is none', () => {
  const took = (facts: Readonly<Record<string, unknown>>) =>
    /took ([^)]*)/.exec(describeJob(job(1, facts), now, plain, connection).join('\n'))?.[1];
  expect([took({ run_seconds: 0 }), took({ run_seconds: 7 }), took({ run_seconds: null })]).toEqual([
    '0 s',
    '7 s',
    '2 min',
  ]);
});

test('One job is described fact by fact', () => {
  const at = (seconds: number, besides: string) => formatTime(ago(seconds), () => besides);
  const ended = job(1, {
    ...{ status: 'error', error: 'out of memory', operation: 'fine_tune', deidentified: true },
    ...{ inputs: ['a', 'b', 'c', 'd', 'e', 'f', 'g'], assigned_gpus: [0, 2], start: 'warm', keep: 3600 },
    ...{ left_files: 2, time_limit: 7200, expires_at: ago(-86_400), bytes_kept: 3 << 20 },
  });
  expect(describeJob(ended, now, plain, connection)).toEqual([
    'Job            aa01bc23de41',
    'Status         error',
    'Error          out of memory',
    'Operation      fine-tune',
    'App            VBoussot/ImpactSynth:MR',
    'Tag            study-of-knees-7',
    'De-identified  yes, as the client said',
    'Inputs         a, b, c, d, e and 2 more',
    'Owner          ana',
    'GPUs           0,2',
    'App was        loaded already',
    `Created        ${at(4000, '1 h ago')}`,
    `Started        ${at(3000, '50 min ago')}`,
    `Finished       ${at(2900, '48 min ago, took 2 min')}`,
    "Left           2 files: 'remote-app result aa01bc23de41 --partial --profile lab'",
    'Time limit     2 h',
    `Kept until     ${at(-86_400, 'in 1 day')}`,
    'Size           3.0 MiB on the server',
  ]);
});

test('A waiting or running job is described with what is known', () => {
  const none = { tag: null, owner: null, assigned_gpus: null, started_at: null, finished_at: null };
  const waits = { status: 'queued', run_seconds: null, queue_position: 3, waiting_for: 'a GPU', keep: 3600 };
  expect(describeJob(job(1, { ...none, ...waits }), now, plain, connection).slice(2)).toEqual([
    'Operation    infer',
    'App          VBoussot/ImpactSynth:MR',
    'Inputs       sub-01_ses-baseline_T1w.nii.gz',
    'Position     3 in the queue',
    'Waiting for  a GPU',
    `Created      ${formatTime(ago(4000), () => '1 h ago')}`,
    'Kept         for 1 h after it ends',
  ]);
  const many = Array.from({ length: 100 }, (_, at) => `scan${at}`);
  const runs = job(1, { ...running, start: 'cold', inputs: many });
  const text = describeJob(runs, now, plain, connection).join('\n');
  expect(text).toMatch(/^Inputs +scan0, scan1, scan2, scan3, scan4 and at least 95 more$/m);
  expect(text).toMatch(/^App was +loaded for this job$/m);
  // Of an earlier version: it says neither how long it ran, nor when it ended.
  const old = job(1, { run_seconds: null, finished_at: ago(2820) });
  expect(describeJob(old, now, plain, connection).join('\n')).toMatch(/^Finished .*took 3 min\)$/m);
});
