import type { Ended } from '../executor.js';

/** How a job ended in Slurm, as far as that is known. */
export interface SlurmEnd {
  /** Slurm's number of it. */
  readonly id: number;
  /** Slurm's word; null if Slurm does not know the job any more. */
  readonly state: string | null;
  /** Where it ran; empty if that is not known. */
  readonly node: string;
  /** Its time limit in Slurm's spelling; empty if that is not known. */
  readonly timeLimit: string;
  /** Whether it was queued again after it had run. */
  readonly isRequeued: boolean;
}

/** What to tell of an end that Slurm caused. */
export type Told = Pick<Ended, 'fault'> & { readonly error: string };

const once = 'an app is never started twice for a job';

/** Of each state that says that Slurm, or somebody there, ended the job. */
const endings: Readonly<Record<string, (end: SlurmEnd, place: string) => Told>> = {
  CANCELLED: ({ id }) => ({
    fault: 'lost',
    error: `It was cancelled in Slurm (job ${id}), and not by this service; ask the admin of the cluster`,
  }),
  TIMEOUT: ({ timeLimit }) => ({
    fault: null,
    error: `Slurm ended it at the time limit of the cluster${timeLimit && ` (${timeLimit})`}; the admin of this server sets it with --slurm-time`,
  }),
  DEADLINE: ({ id }) => ({
    fault: null,
    error: `Slurm ended it at its deadline (job ${id})`,
  }),
  OUT_OF_MEMORY: (_, place) => ({
    fault: 'outOfMemory',
    error: `Out of memory: Slurm ended it${place}, since it used more memory than its job has there; the admin of this server sets that with --slurm-arg=--mem=SIZE`,
  }),
  NODE_FAIL: (_, place) => ({
    fault: 'lost',
    error: `The node failed while the job ran${place}; submit it again`,
  }),
  BOOT_FAIL: (_, place) => ({
    fault: 'lost',
    error: `The node could not be started for the job${place}; submit it again`,
  }),
  PREEMPTED: (_, place) => ({
    fault: 'lost',
    error: `Slurm preempted it${place} for a job that goes first; submit it again`,
  }),
};

/**
 * What to tell of a job that Slurm ended.
 * @returns null where Slurm did not end it: what the runner has written says how it ended
 */
export function toldBySlurm(end: SlurmEnd): Told | null {
  const place = end.node === '' ? '' : ` on node ${end.node}`;
  if (end.isRequeued) {
    return {
      fault: 'lost',
      error: `Slurm preempted it${place} and queued it again, and ${once}; submit it again`,
    };
  }
  return endings[end.state ?? '']?.(end, place) ?? null;
}

/** What to tell of a job that is gone from Slurm without a word of its end. */
export function toldByNobody({ id, state, node }: SlurmEnd, lastWords: string): Told {
  const place = node === '' ? '' : ` on node ${node}`;
  const saying = lastWords === '' ? '' : `: ${lastWords}`;
  if (state === null) {
    const error = `Slurm does not know its job ${id} any more, and nothing on the shared disk says how it ended${saying}`;
    return { fault: 'lost', error };
  }
  return { fault: 'lost', error: `Its batch script failed in Slurm (job ${id}, ${state})${place}${saying}` };
}

/** What a batch script cannot say that did not come to write into the job directory. */
const noWords =
  'its batch script has said nothing; the data directory of this server must be shared with the nodes, under the same path';

/** Why a job cannot run whose batch script has ended before it came to a start. */
export function failedStart(
  { id, state, node }: Pick<SlurmEnd, 'id' | 'state' | 'node'>,
  lastWords: string,
): string {
  const place = node === '' ? '' : ` on node ${node}`;
  if (state === 'CANCELLED') {
    return `It was cancelled in Slurm (job ${id}) before it had started, and not by this service; ask the admin of the cluster`;
  }
  const saying = lastWords === '' ? noWords : lastWords;
  return `It could not be started${place} (Slurm job ${id}, ${state ?? 'gone'}): ${saying}`;
}
