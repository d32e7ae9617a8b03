/** Slurm's name of a job of this service. */
export const slurmName = (jobId: string): string => `remote-app-${jobId}`;

/** What squeue is asked to print of a job; the name and the directory are last, since they may hold any character. */
export const rowFormat = '%i|%T|%Q|%N|%l|%r|%j|%Z';

/** A job of this service as Slurm has it. */
export interface QueueRow {
  /** Slurm's number of it. */
  readonly id: number;
  /** Slurm's word for its state, such as `PENDING`. */
  readonly state: string;
  /** The one with the highest is started first. */
  readonly priority: number;
  /** Where it runs; empty while it waits. */
  readonly node: string;
  /** Its time limit in Slurm, in Slurm's spelling. */
  readonly timeLimit: string;
  /** Why it waits, in Slurm's word. */
  readonly reason: string;
  /** Our id of it. */
  readonly jobId: string;
  /** Its job directory. */
  readonly directory: string;
}

const row = /^(\d+)\|([A-Z_]+)\|(\d+)\|([^|]*)\|([^|]*)\|([^|]*)\|remote-app-([^|/]+)\|(\/.*)$/;

/** The jobs of this service in the answer of squeue. What is not one, such as another job of this user, is left out. */
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

/** Where a job is in Slurm. What is none of the states that are known counts as `active`: something may run. */
export type Stage = 'waiting' | 'active' | 'ended';

export function stageOf({ state }: Pick<QueueRow, 'state'>): Stage {
  if (waiting.has(state)) return 'waiting';
  return ended.has(state) ? 'ended' : 'active';
}
