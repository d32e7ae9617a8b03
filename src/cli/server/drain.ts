import {
  AnswerError,
  type Connection,
  drainState,
  pause,
  setDraining,
} from '../../client/connection/index.js';
import { ClientError, UsageError } from '../../client/errors.js';
import type { Reporter } from '../../client/reporter.js';
import { counted, type DrainState, exitCodes } from '../../contract/index.js';

/** Milliseconds between two requests of a wait. */
const waitInterval = 1000;

interface DrainChoices {
  /** Drains only these GPUs instead of the whole server. */
  readonly gpu?: string | undefined;
  /** Accepts new jobs again. */
  readonly undo: boolean;
  /** Waits until no job is active. */
  readonly wait: boolean;
}

/** A sentence about the GPUs that get no new jobs. */
export const describeDrainedGpus = ({ gpus = [] }: DrainState): string =>
  gpus.length === 0 ? 'No GPU is drained.' : `No new job gets GPU ${gpus.join(', ')}.`;

/** A sentence about whether the server accepts jobs. */
export function describeDrain({ draining, active }: Omit<DrainState, 'gpus'>): string {
  if (!draining) return 'New jobs are accepted again.';
  const fate =
    active === 0
      ? 'no job is active'
      : `${counted(active, 'active job')} ${active === 1 ? 'continues' : 'continue'}`;
  return `No new job is accepted; ${fate}.`;
}

/** Makes a server refuse new jobs or accept them again, and optionally waits until no job is active. */
export async function drain(
  connection: Connection,
  { gpu, undo, wait }: DrainChoices,
  reporter: Reporter,
): Promise<DrainState> {
  const draining = !undo;
  // An older server would ignore the parameter and drain as a whole.
  if (gpu !== undefined && (await drainState(connection)).gpus === undefined)
    throw new UsageError(
      `${connection.server} cannot drain single GPUs; its remote-app is older than this command`,
    );
  let state = await setDraining(connection, draining, gpu);
  if (gpu !== undefined) return state;
  if (state.draining !== draining) {
    throw new AnswerError(
      connection.server,
      `answered that it ${undo ? 'still accepts no new job' : 'accepts new jobs'}`,
    );
  }
  let told = state.active;
  if (wait && state.active > 0) reporter.note(`${describeDrain(state)} Waiting for the end.`);
  while (wait && state.active > 0) {
    await pause(waitInterval, connection.signal);
    state = await drainState(connection);
    if (!state.draining) {
      const what = `${connection.server} accepts new jobs again: somebody has ended the drain`;
      throw new ClientError(`${what}; drain it again`, exitCodes.failed);
    }
    if (state.active !== told && state.active > 0)
      reporter.note(`${counted(state.active, 'active job')} left`);
    told = state.active;
  }
  return state;
}
