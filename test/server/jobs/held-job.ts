import { readFileSync } from 'node:fs';
import { expect, onTestFinished } from 'vitest';
import type { JobState } from '../../../src/contract/job.js';
import { type Clock, systemClock } from '../../../src/files/index.js';
import { ServerEvents } from '../../../src/server/events.js';
import { Job, type JobContext } from '../../../src/server/jobs/job.js';
import { JobDirectory } from '../../../src/server/jobs/job-directory.js';
import { type JobRecord, type JobRequest, newRecord } from '../../../src/server/jobs/job-record.js';
import { temporary } from '../../support/temporary.js';
import { request } from './job-service.js';

/** A directory whose records can be delayed. */
export class HeldDirectory extends JobDirectory {
  #held: Promise<void> = Promise.resolve();
  /** The latest record on the disk, and whether a power cut leaves it there. */
  latest: { readonly record: JobRecord; readonly isKept: boolean } | null = null;

  /** No record is written until the function that this returns is called. */
  hold(): () => void {
    let letGo = () => {};
    this.#held = new Promise((resolve) => {
      letGo = resolve;
    });
    return letGo;
  }

  override async save(record: JobRecord, isKept = true): Promise<void> {
    await this.#held;
    await super.save(record, isKept);
    this.latest = { record, isKept };
  }

  stateOnDisk(): JobState {
    return (JSON.parse(readFileSync(this.recordFile, 'utf8')) as JobRecord).state;
  }
}

/** A job in such a directory: a new one, or one whose record an earlier server has changed like this. */
export async function makeJob(
  clock: Clock = systemClock,
  change: Partial<JobRecord> | null = null,
  context: Partial<JobContext> = {},
): Promise<{ job: Job; directory: HeldDirectory }> {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  const directory = new HeldDirectory('0123456789ab', root.path);
  const asked: JobRequest = { ...request, owner: null, keep: 120, timeLimit: 600 };
  const record = { ...newRecord(directory.id, asked, new Date().toISOString(), 0), ...change };
  directory.saveFirst(record, {});
  const report = (problem: string, cause: unknown) => expect.fail(`${problem}: ${cause}`);
  const shared = { areEndsNoticed: false, events: new ServerEvents(report), clock, report, ...context };
  return { job: new Job(directory, record, change !== null, shared), directory };
}
