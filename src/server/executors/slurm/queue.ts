import { setTimeout as delay } from 'node:timers/promises';
import { oneLine } from '../../../contract/index.js';
import { messageOf } from '../../../files/index.js';

/** The name in Slurm of a job of this service. */
export const slurmName = (jobId: string): string => `remote-app-${jobId}`;

/** The columns that squeue prints for a job. The name and the directory come last because they may contain any character. */
const rowFormat = '%i|%T|%Q|%N|%l|%r|%j|%Z';

/** One submission of a job of this service, as Slurm sees it. */
export interface QueueRow {
  /** Its id in Slurm. */
  readonly id: number;
  /** Slurm's name for its state, such as `PENDING`. */
  readonly state: string;
  /** The job with the highest priority starts first. */
  readonly priority: number;
  /** Where it runs; empty while it waits. */
  readonly node: string;
  /** Its time limit in Slurm's format. */
  readonly timeLimit: string;
  /** Slurm's name for the reason why it waits. */
  readonly reason: string;
  /** Its id in this service. */
  readonly jobId: string;
  /** Its job directory. */
  readonly directory: string;
}

const row = /^(\d+)\|([A-Z_]+)\|(\d+)\|([^|]*)\|([^|]*)\|([^|]*)\|remote-app-([^|/]+)\|(\/.*)$/;

/** The jobs of this service in an answer of squeue. Other jobs of the same user are left out. */
export function parseRows(answer: string): QueueRow[] {
  return answer.split('\n').flatMap((line) => {
    const [, id, state = '', priority, node = '', timeLimit = '', reason = '', jobId = '', directory = ''] =
      row.exec(line) ?? [];
    if (id === undefined) return [];
    return [{ id: Number(id), state, priority: Number(priority), node, timeLimit, reason, jobId, directory }];
  });
}

const waiting = new Set([
  'PENDING',
  'REQUEUED',
  'REQUEUE_FED',
  'REQUEUE_HOLD',
  'SPECIAL_EXIT',
  'RESV_DEL_HOLD',
]);
const ended = new Set([
  'COMPLETED',
  'CANCELLED',
  'FAILED',
  'TIMEOUT',
  'NODE_FAIL',
  'PREEMPTED',
  'BOOT_FAIL',
  'DEADLINE',
  'OUT_OF_MEMORY',
  'REVOKED',
]);

/** The phase of a job in Slurm. An unknown state counts as `active`, because the job may be running. */
export type Phase = 'waiting' | 'active' | 'ended';

export function phaseOf({ state }: Pick<QueueRow, 'state'>): Phase {
  if (waiting.has(state)) return 'waiting';
  return ended.has(state) ? 'ended' : 'active';
}

/** Slurm's usual reasons for waiting, as phrases that follow "Waiting for". */
const meanings: Readonly<Record<string, string>> = {
  Resources: 'free resources of the cluster',
  Priority: 'jobs before it in the queue of the cluster',
  Dependency: 'another job of the cluster',
  BeginTime: 'the time at which Slurm may start it',
  JobHeldAdmin: 'the admin of the cluster, who holds it',
  JobHeldUser: 'somebody to release it, who holds it',
  PartitionDown: 'its partition, which is down',
  PartitionInactive: 'its partition, which is inactive',
  PartitionTimeLimit: 'a change of its settings: its time limit is longer than its partition allows',
  PartitionNodeLimit: 'a change of its settings: its partition has no such nodes',
  Reservation: 'its reservation',
  Licenses: 'a licence',
};

/** Whether Slurm has no reason yet, as for a job that was just submitted. */
export const isUndecided = (reason: string): boolean => reason === 'None' || reason === '';

/** A phrase for what a job waits for in Slurm, with Slurm's own reason. */
export function waitingWords(reason: string): string {
  if (isUndecided(reason)) return 'Slurm to start it';
  const [word = ''] = reason.split(',');
  const isLimit = /^(?:QOS|Assoc).*(?:Limit|Max|Grp)|^Assoc|^QOS/.test(word);
  const meaning = meanings[word] ?? (isLimit ? 'its turn under a limit of the cluster' : 'Slurm to start it');
  return `${meaning} (Slurm: ${oneLine(reason)})`;
}

/** Milliseconds from the end of one call of squeue to the next. */
const interval = 1000;
/** The same while the controller is not responding. */
const outageInterval = 5000;

/** The jobs of this service in Slurm, as of one call of squeue. */
export interface QueueView {
  /** When squeue was called (`performance.now()`). */
  readonly at: number;
  readonly rows: readonly QueueRow[];
}

const words = ['--noheader', '--me', '--states=all', `--format=${rowFormat}`];

/** Keeps the view of the queue up to date until it is disposed of, and resolves `next` when something changes. */
export class QueueFollower implements Disposable {
  #isAwake = false;
  #resolve = () => {};

  constructor(private readonly unfollow: (follower: QueueFollower) => void) {}

  /** Ends the current wait, or the next one if there is none. */
  wake(): void {
    this.#isAwake = true;
    this.#resolve();
  }

  /**
   * Resolves at the next answer of squeue or call of `wake`, or at once if there was one since the last wait.
   * @param timeout milliseconds after which it resolves anyway
   */
  async next(timeout?: number): Promise<void> {
    if (!this.#isAwake) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#resolve = resolve;
        if (timeout !== undefined) timer = setTimeout(resolve, timeout).unref();
      });
      clearTimeout(timer);
    }
    this.#isAwake = false;
  }

  [Symbol.dispose](): void {
    this.unfollow(this);
  }
}

/** Our jobs in Slurm's queue: one call of squeue for all of them, at most once a second, and only while somebody needs it. */
export class JobQueue {
  /** The last answer; null before the first one. */
  view: QueueView | null = null;
  /** Why there was no answer to the last call; null if there was one. */
  problem: string | null = null;
  /** When the last call began that has ended. */
  #calledAt = Number.NEGATIVE_INFINITY;
  readonly #followers = new Set<QueueFollower>();
  #isPolling = false;

  /**
   * @param ask calls squeue with these arguments
   * @param asked called after each call, whether it succeeded or failed
   */
  constructor(
    private readonly ask: (words: readonly string[]) => Promise<string>,
    private readonly asked: () => void = () => {},
  ) {}

  follow(): QueueFollower {
    const follower = new QueueFollower((each) => this.#followers.delete(each));
    this.#followers.add(follower);
    void this.#poll();
    return follower;
  }

  /** Resolves after a call of squeue that began after this one, whether it succeeded or failed. */
  async refresh(): Promise<void> {
    const begin = performance.now();
    using follower = this.follow();
    while (this.#calledAt < begin) await follower.next();
  }

  /** The submissions of a job, as of the last answer. */
  rowsOf(directory: string): readonly QueueRow[] {
    return this.view?.rows.filter((each) => each.directory === directory) ?? [];
  }

  /** One submission, as of the last answer. */
  rowOf(id: number | null): QueueRow | undefined {
    return this.view?.rows.find((each) => each.id === id);
  }

  async #poll(): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    try {
      while (this.#followers.size > 0) {
        await this.#call();
        // Whoever follows during the pause waits for its end.
        await delay(this.problem === null ? interval : outageInterval, undefined, { ref: false });
      }
    } finally {
      this.#isPolling = false;
    }
  }

  async #call(): Promise<void> {
    const at = performance.now();
    try {
      this.view = { at, rows: parseRows(await this.ask(words)) };
      this.problem = null;
    } catch (cause) {
      this.problem = messageOf(cause);
    }
    this.#calledAt = at;
    this.asked();
    for (const each of this.#followers) each.wake();
  }
}
