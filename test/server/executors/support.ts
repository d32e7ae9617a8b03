import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { unknownNeeds } from '../../../src/contract/index.js';
import { signal, unknownUsage } from '../../../src/runner/index.js';
import type {
  DeviceRequest,
  Ended,
  Executor,
  RunEvent,
  RunOrder,
} from '../../../src/server/executors/index.js';
import type { DeviceOrder } from '../../../src/server/executors/local/scheduler.js';
import { processesWith } from '../../support/processes.js';
import { temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';

/** How an executor of one CPU slot is made, and how it is disturbed. */
export interface Subject {
  /** @param gpus how many it has, by default none; null where it cannot find out */
  make(gpus?: number | null): Promise<Executor>;
  /** Whether somebody else chooses the GPUs of a job, and knows nothing of their memory: a cluster. */
  readonly isCluster?: boolean;
  /** Loses a job that runs, as when its machine fails. */
  lose(directory: string): void;
}

let made = 0;

/** What the scheduler is asked for: by default of the admin, for a job that declares nothing. */
export const deviceOrder = (devices: DeviceRequest, more: Partial<DeviceOrder> = {}): DeviceOrder => ({
  id: 'a-job',
  devices,
  owner: null,
  needs: unknownNeeds,
  isAlone: false,
  isAccepted: false,
  ...more,
});

/** Numbers from 0 to 1 that are the same in every run (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A job directory; its processes are ended after the test. */
export class TestJob {
  readonly id: string;
  readonly path: string;

  /** @param isCluster whether a cluster starts it, whose own script works in its directory */
  constructor(
    parent: string,
    private readonly isCluster = false,
  ) {
    made += 1;
    this.id = `executor-test-${process.pid}-${made}`;
    this.path = path.join(parent, this.id);
    for (const each of [this.temporary, this.output, this.input]) mkdirSync(each, { recursive: true });
  }

  get workspace(): string {
    return path.join(this.path, 'Workspace');
  }

  get temporary(): string {
    return path.join(this.workspace, 'tmp');
  }

  get input(): string {
    return path.join(this.path, 'Input');
  }

  get output(): string {
    return path.join(this.path, 'Output');
  }

  get log(): string {
    const file = path.join(this.path, 'log');
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  }

  async prints(text: string): Promise<void> {
    await until(`${this.id} prints ${text}`, () => this.log.includes(text));
  }

  /** Its processes that still run. */
  processes(): number[] {
    const directory = this.isCluster ? undefined : this.path;
    return processesWith({ jobs: new Set([this.id]), argument: this.path, directory });
  }

  order(script: string, more: Partial<RunOrder> = {}): RunOrder {
    return {
      directory: this,
      devices: { kind: 'cpu', workers: 1 },
      needs: unknownNeeds,
      isAlone: false,
      owner: null,
      timeLimit: null,
      isAccepted: false,
      grant: null,
      environment: {},
      command: () => ['sh', '-c', script],
      access: () => ({ network: false, directories: [], environment: {} }),
      ...more,
    };
  }
}

/** The directory of the jobs of a test. */
export class Bench implements AsyncDisposable {
  readonly jobs: TestJob[] = [];
  readonly #executors: Executor[] = [];

  private constructor(
    private readonly subject: Subject,
    readonly directory: string,
    private readonly cleanUp: () => Promise<unknown>,
  ) {}

  /** @param parent where it lies; by default a temporary directory */
  static async open(subject: Subject, parent?: string): Promise<Bench> {
    if (parent === undefined) {
      const root = await temporary();
      return new Bench(subject, root.path, async () => root[Symbol.asyncDispose]());
    }
    const directory = path.join(parent, 'jobs');
    mkdirSync(directory);
    return new Bench(subject, directory, () => rm(directory, { recursive: true }));
  }

  /** An executor; a second one is that of a server which was started again. */
  async executor(gpus?: number | null): Promise<Executor> {
    const executor = await this.subject.make(gpus);
    this.#executors.push(executor);
    return executor;
  }

  job(): TestJob {
    const job = new TestJob(this.directory, this.subject.isCluster);
    this.jobs.push(job);
    return job;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const job of this.jobs) {
      await until(`${job.id} is gone`, () => {
        const left = job.processes();
        for (const pid of left) signal(pid, 'SIGKILL');
        return left.length === 0;
      });
    }
    await this.cleanUp();
  }
}

/** Collects the events of a run. */
export class Followed {
  readonly events: RunEvent[] = [];
  readonly ended: Promise<Ended>;

  constructor(run: AsyncIterable<RunEvent>) {
    this.ended = this.#follow(run);
    this.ended.catch(() => {});
  }

  /** What it told, in order; a job that waits at the same place for another reason counts as one that waits on. */
  get kinds(): string[] {
    const isNews = (event: RunEvent, index: number) => {
      const before = this.events[index - 1];
      return event.kind !== 'waiting' || before?.kind !== 'waiting' || before.position !== event.position;
    };
    return this.events.filter(isNews).map(({ kind }) => kind);
  }

  /** Its positions in the queue, in order. */
  get positions(): number[] {
    const all = this.events.flatMap((event) => (event.kind === 'waiting' ? [event.position] : []));
    return all.filter((position, index) => position !== all[index - 1]);
  }

  async #follow(run: AsyncIterable<RunEvent>): Promise<Ended> {
    for await (const event of run) {
      this.events.push(event);
      if (event.kind === 'ended') {
        // The time, and what it has used, differ in each run.
        const { endedAt: _, ...end } = event;
        return { ...end, ...unknownUsage };
      }
    }
    throw new Error('No end was told');
  }
}

/** The first event of a run that is not followed further, as when its server has died. */
export async function firstOf(run: AsyncIterable<RunEvent>): Promise<RunEvent> {
  const { value, done } = await run[Symbol.asyncIterator]().next();
  if (done) throw new Error('Nothing was told');
  return value;
}
