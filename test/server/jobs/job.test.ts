import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import type { JobState } from '../../../src/contract/job.js';
import { Job } from '../../../src/server/jobs/job.js';
import { JobDirectory } from '../../../src/server/jobs/job-directory.js';
import { type JobRecord, newRecord } from '../../../src/server/jobs/job-record.js';

/** A directory on a disk that can be held up. */
class HeldDirectory extends JobDirectory {
  #held: Promise<void> = Promise.resolve();

  /** No record is written until the function that this returns is called. */
  hold(): () => void {
    let letGo = () => {};
    this.#held = new Promise((resolve) => {
      letGo = resolve;
    });
    return letGo;
  }

  override async save(record: JobRecord): Promise<void> {
    await this.#held;
    await super.save(record);
  }

  stateOnDisk(): JobState {
    return (JSON.parse(readFileSync(this.recordFile, 'utf8')) as JobRecord).state;
  }
}

async function makeJob(): Promise<{ job: Job; directory: HeldDirectory }> {
  const root = await mkdtemp(path.join(tmpdir(), 'remote-app-test-job-'));
  onTestFinished(() => rm(root, { recursive: true }));
  const directory = new HeldDirectory('0123456789ab', root);
  const record = newRecord(directory.id, {
    app: 'tissue',
    operation: 'infer',
    values: {},
    files: {},
    device: { kind: 'cpu', workers: 1 },
    acceptedOptions: [],
    idempotencyKey: null,
  });
  await directory.saveFirst(record);
  const report = (problem: string, cause: unknown) => expect.fail(`${problem}: ${cause}`);
  return { job: new Job(directory, record, false, report), directory };
}

test('a second kill while the end is written down changes nothing', async () => {
  const { job, directory } = await makeJob();
  const letGo = directory.hold();
  const end = job.finish('killed', 'Killed by user');
  await delay(0);
  const secondKill = job.requestKill();
  letGo();
  await Promise.all([end, secondKill]);
  expect([job.state, directory.stateOnDisk()]).toEqual(['killed', 'killed']);
});

test('an end while a kill is still written down stays, in memory and on the disk', async () => {
  const { job, directory } = await makeJob();
  const letGo = directory.hold();
  const kill = job.requestKill();
  await delay(0);
  const end = job.finish('killed', 'Killed by user');
  letGo();
  await Promise.all([kill, end]);
  expect([job.state, directory.stateOnDisk()]).toEqual(['killed', 'killed']);
});

test('an end that the disk keeps waiting is told all the same, and stays when the disk is back', async () => {
  const { job, directory } = await makeJob();
  const letGo = directory.hold();
  const kill = job.requestKill();
  await job.finish('killed', 'Killed by user');
  expect([job.state, directory.stateOnDisk()]).toEqual(['killed', 'queued']);
  letGo();
  await kill;
  await expect.poll(() => directory.stateOnDisk()).toBe('killed');
  expect(job.state).toBe('killed');
}, 20_000);
