import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { isGone } from '../../../files/is-gone.js';
import { runFiles } from '../../../runner/protocol.js';
import type { Ended } from '../executor.js';
import { settleRunEnd, untold } from '../runs/run-end.js';
import type { SlurmContext } from './context.js';
import { failedStart, type SlurmEnd, toldByNobody, toldBySlurm } from './endings.js';
import { lastWords, placementOf, refreshDirectory } from './handshake.js';
import { stageOf } from './queue-rows.js';

/** How often `exit.json` is looked for that must be there, and milliseconds between two looks. */
const looks = 20;
const pause = 500;

/** How the runner says that the job ended; null if it has not said so. */
export async function readEnd(directory: string, wasStopped: boolean): Promise<Ended | null> {
  // NFS may know of the file only now.
  refreshDirectory(directory);
  return existsSync(runFiles(directory).end) ? await settleRunEnd(directory, wasStopped) : null;
}

/** Slurm's own view of the end, by squeue as long as that has the job, and then by accounting. */
async function slurmEndOf(directory: string, given: number | null, context: SlurmContext): Promise<SlurmEnd> {
  const rows = context.queue.rowsOf(directory);
  const row = rows.find((each) => each.id === given) ?? rows[0];
  const id = row?.id ?? given ?? 0;
  const placement = placementOf(directory, id);
  const accounted = row ? null : await context.slurm.accounted(id);
  return {
    id,
    state: row?.state ?? accounted?.state ?? null,
    node: placement?.node ?? row?.node ?? accounted?.node ?? '',
    timeLimit: row?.timeLimit ?? '',
    isRequeued: (placement?.starts ?? 0) > 1 || (row !== undefined && stageOf(row) === 'waiting'),
  };
}

/** Adds the node to a sentence about what is wrong there, unless it names it. */
const onNode = (sentence: string | null, { node }: SlurmEnd): string | null =>
  sentence === null || node === '' || sentence.includes(node) ? sentence : `${sentence} (node ${node})`;

/** The end of a job whose runner has written none, although its batch script ended well: NFS may be late. */
async function lateEnd(directory: string): Promise<Ended | null> {
  for (let look = 0; look < looks; look += 1) {
    const told = await readEnd(directory, false);
    if (told) return told;
    await delay(pause, undefined, { ref: false });
  }
  return null;
}

/**
 * The end of a job that nobody here has ended, and that was no success: what Slurm says of it goes before what the runner
 * has seen of it.
 * @param id Slurm's number of it; null if that is not known
 * @param told what the runner has written; null if nothing
 */
export async function explainEnd(
  directory: string,
  id: number | null,
  told: Ended | null,
  context: SlurmContext,
): Promise<Ended> {
  const slurmEnd = await slurmEndOf(directory, id, context);
  const bySlurm = toldBySlurm(slurmEnd);
  if (bySlurm) return { ...(told ?? untold(null, '')), ...bySlurm };
  const hasStarted = !isGone(runFiles(directory).claim);
  const found = told ?? (hasStarted && slurmEnd.state === 'COMPLETED' ? await lateEnd(directory) : null);
  // What the runner could not do is a matter of its node.
  if (found) return { ...found, error: onNode(found.error, slurmEnd) };
  const silent = await settleRunEnd(directory, false);
  // A full disk, or a directory that is gone, explains it.
  if (silent.fault !== 'lost' || isGone(directory)) return silent;
  if (!hasStarted) return { ...silent, error: failedStart(slurmEnd, lastWords(directory)) };
  // The batch script has said how the runner ended: it was killed.
  if (slurmEnd.state === 'FAILED') return { ...silent, error: onNode(silent.error, slurmEnd) };
  return { ...silent, ...toldByNobody(slurmEnd, lastWords(directory)) };
}
