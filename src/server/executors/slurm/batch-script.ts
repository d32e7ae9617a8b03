import path from 'node:path';
import type { JobPlace } from '../executor.js';

/** Exit code of the batch script if the job directory is not on its node (EX_NOINPUT). */
const noDirectory = 66;

/** Looks at `go`, one in 50 ms, before the script gives the node back: two minutes. A server that is started again is there by then. */
const mostLooks = 2400;

/**
 * The batch script of every job. Nothing of a job is written into it: what differs comes by variables. It says where it
 * is, waits until the server has noted that, and starts the runner, which does the rest; a SIGTERM of Slurm's goes on to
 * the runner. If the runner was killed, what is left of the job on this node is ended. The script ends without a start, and
 * without an error, if no server lets it go on, if another one was let go on, or if the job has run before.
 */
export const batchScript = `#!/bin/sh
cd "$REMOTE_APP_SLURM_DIRECTORY" && [ -e Slurm/go ] || {
  echo "the job directory is not on node $SLURMD_NODENAME: $REMOTE_APP_SLURM_DIRECTORY"
  exit ${noDirectory}
}
ring() { echo "$SLURM_JOB_ID" >>"$REMOTE_APP_SLURM_BELL"; } 2>/dev/null
stopped= runner=
trap 'stopped=1; [ -z "$runner" ] || kill -TERM "$runner" 2>/dev/null' TERM INT HUP
until printf '\\n%s %s %s .\\n' "$SLURM_JOB_ID" "$SLURMD_NODENAME" "\${CUDA_VISIBLE_DEVICES:--}" >>Slurm/placed
do sleep 1; [ -z "$stopped" ] || exit 0
done 2>/dev/null
[ ! -e claimed ] || exit 0
ring
go= looks=0
while [ "$go" != "$SLURM_JOB_ID" ]; do
  [ -z "$stopped" ] || exit 0
  [ -z "$go" ] && [ -e Slurm/go ] || exit 0
  [ "$looks" -lt ${mostLooks} ] || exit 0
  looks=$((looks + 1))
  sleep 0.05
  read -r go <Slurm/go
done 2>/dev/null
"$REMOTE_APP_SLURM_NODE" "$REMOTE_APP_SLURM_RUNNER" "$REMOTE_APP_SLURM_DIRECTORY" &
runner=$!
[ -z "$stopped" ] || kill -TERM "$runner" 2>/dev/null
status=0
while kill -0 "$runner" 2>/dev/null; do wait "$runner"; status=$?; done
[ -e exit.json ] || [ ! -e claimed ] ||
  "$REMOTE_APP_SLURM_NODE" "$REMOTE_APP_SLURM_SWEEP" "$REMOTE_APP_SLURM_DIRECTORY" "$REMOTE_APP_SLURM_JOB"
ring
exit "$status"
`;

/** The programs that a node starts, by paths that are the same there. */
export interface NodePrograms {
  /** Node.js. */
  readonly node: string;
  readonly runner: string;
  /** Ends what a runner that was killed has left. */
  readonly sweep: string;
}

/** The variables of the batch script. The app does not get them. */
export const batchEnvironment = (
  { id, path: directory }: JobPlace,
  { node, runner, sweep }: NodePrograms,
  bell: string,
): Readonly<Record<string, string>> => ({
  REMOTE_APP_SLURM_DIRECTORY: directory,
  REMOTE_APP_SLURM_JOB: id,
  REMOTE_APP_SLURM_BELL: path.resolve(bell),
  REMOTE_APP_SLURM_NODE: node,
  REMOTE_APP_SLURM_RUNNER: runner,
  REMOTE_APP_SLURM_SWEEP: sweep,
});
