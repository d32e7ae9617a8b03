import { isGone } from '../../../files/is-gone.js';
import { runFiles } from '../../../runner/protocol.js';

/** Whether a runner has ever had the job; true if that cannot be determined, so that no job runs twice. */
export function hasRun(directory: string): boolean {
  const { claim, end } = runFiles(directory);
  return ![claim, end].every(isGone);
}
