import { closeSync, constants, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { excerpt } from '../../../contract/index.js';
import { isGone, openOwnFile, orElse, readOwnFile, tailOf } from '../../../files/index.js';
import { cleanupProgram, runFiles, runnerProgram } from '../../../runner/index.js';
import type { JobRef } from '../index.js';

/** Exit code of the batch script if the job directory is not visible on its node (EX_NOINPUT). */
const noDirectory = 66;

/**
 * How often the script reads `go`: every 50 ms for two minutes, which is enough to restart the server. Then it gives the node
 * back.
 */
const maxReads = 2400;

/**
 * The batch script of every job; only its variables differ. It records its node and its GPUs, waits until the server has recorded
 * them and answers in `go`, and starts the runner. It passes SIGTERM on to the runner. If the runner was killed, the script ends
 * what is left of the job on the node. It exits with 0 and starts nothing if the server does not answer, has chosen another
 * submission of the same job, or if the job has run before.
 */
export const batchScript = `#!/bin/sh
cd "$REMOTE_APP_SLURM_DIRECTORY" && [ -e Slurm/go ] || {
  echo "the job directory is not on node $SLURMD_NODENAME: $REMOTE_APP_SLURM_DIRECTORY"
  exit ${noDirectory}
}
gpus=\${CUDA_VISIBLE_DEVICES:-\${ROCR_VISIBLE_DEVICES:-}}
ids=\${SLURM_STEP_GPUS:-\${SLURM_JOB_GPUS:-}}
[ -n "$gpus" ] || [ -z "$ids" ] ||
  gpus="granted:$ids:$(timeout 20 nvidia-smi -L 2>/dev/null | grep -c '^GPU ')"
stopped= runner=
trap 'stopped=1; [ -z "$runner" ] || kill -TERM "$runner" 2>/dev/null' TERM INT HUP
until printf '\\n%s %s %s .\\n' "$SLURM_JOB_ID" "$SLURMD_NODENAME" "\${gpus:--}" >>Slurm/placed
do sleep 1; [ -z "$stopped" ] || exit 0
done 2>/dev/null
[ ! -e claimed ] || exit 0
go= reads=0
while [ "$go" != "$SLURM_JOB_ID" ]; do
  [ -z "$stopped" ] || exit 0
  [ -z "$go" ] && [ -e Slurm/go ] || exit 0
  [ "$reads" -lt ${maxReads} ] || exit 0
  reads=$((reads + 1))
  sleep 0.05
  read -r go <Slurm/go
done 2>/dev/null
"$REMOTE_APP_SLURM_NODE" "$REMOTE_APP_SLURM_RUNNER" "$REMOTE_APP_SLURM_DIRECTORY" &
runner=$!
[ -z "$stopped" ] || kill -TERM "$runner" 2>/dev/null
status=0
while kill -0 "$runner" 2>/dev/null; do wait "$runner"; status=$?; done
[ -e exit.json ] || [ ! -e claimed ] ||
  "$REMOTE_APP_SLURM_NODE" "$REMOTE_APP_SLURM_CLEANUP" "$REMOTE_APP_SLURM_DIRECTORY" "$REMOTE_APP_SLURM_JOB"
exit "$status"
`;

/** The variables of the batch script, which the app does not get. The paths of the programs are the same on every node. */
export const batchEnvironment = ({ id, path: directory }: JobRef): Readonly<Record<string, string>> => ({
  REMOTE_APP_SLURM_DIRECTORY: directory,
  REMOTE_APP_SLURM_JOB: id,
  REMOTE_APP_SLURM_NODE: process.execPath,
  REMOTE_APP_SLURM_RUNNER: runnerProgram,
  REMOTE_APP_SLURM_CLEANUP: cleanupProgram,
});

/** Maximum size in bytes of a file that is read here. */
const maxBytes = 1 << 20;
/** Maximum number of bytes read from the end of the batch script's output. */
const tailBytes = 2000;

/**
 * The files in `Slurm` of the job directory through which the server and the batch script agree on a start. They are created
 * before the job is submitted and written in place: an NFS client asks its server about a file that it opens, but may remember
 * for half a minute that a file did not exist.
 */
const files = (directory: string) => {
  const own = path.join(directory, 'Slurm');
  const file = (name: string) => path.join(own, name);
  return { own, id: file('id'), placed: file('placed'), go: file('go'), out: file('out') };
};

/** Where the batch script's own output goes, relative to the job directory. The job's log is another file. */
export const batchOutput = 'Slurm/out';

function overwrite(file: string, text: string): void {
  const descriptor = openOwnFile(file, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC);
  try {
    writeFileSync(descriptor, text);
  } finally {
    closeSync(descriptor);
  }
}

/** The text of a file; empty if it cannot be read. */
const readOrNothing = (file: string): string => orElse(() => readOwnFile(file, maxBytes) ?? '', '');

/** Whether this server or an earlier one has prepared a submission of this job; true if that cannot be determined. */
export const isPrepared = (directory: string): boolean =>
  orElse(() => readOwnFile(files(directory).go, maxBytes) !== undefined, true);

/** Makes the files before a submission. @throws the system's error */
export function prepare(directory: string): void {
  const { own, placed, go } = files(directory);
  mkdirSync(own, { recursive: true, mode: 0o700 });
  for (const file of [placed, go]) overwrite(file, '');
}

/** Removes these files of a job that has ended, so that it can be submitted once more. */
export const forgetSubmission = (directory: string): void =>
  rmSync(files(directory).own, { recursive: true, force: true });

/** Records Slurm's id of the job, which a restarted server needs to ask accounting. */
export const noteId = (directory: string, id: number): void => overwrite(files(directory).id, `${id}\n`);

/** The recorded id; null if there is none. */
export const notedId = (directory: string): number | null =>
  Number(/^(\d+)\n$/.exec(readOrNothing(files(directory).id))?.[1]) || null;

/** Where Slurm has placed a job. */
export interface Placement {
  readonly node: string;
  /** Its GPUs as `CUDA_VISIBLE_DEVICES` names them on the node, or would name them: numbers or UUIDs. */
  readonly devices: readonly string[];
  /** Whether an environment variable on the node names them to the app. */
  readonly areNamed: boolean;
  /** How often its batch script has started: more than once if Slurm requeued the job. */
  readonly starts: number;
}

const placedLine = /^(\d+) (\S+) (\S+) \.$/gm;

/** GPUs that only SLURM_JOB_GPUS or SLURM_STEP_GPUS names, and how many of them nvidia-smi shows to the job. */
const grantedOnly = /^granted:([\d,-]+):(\d*)$/;

/** The numbers in a list such as `0,2-3`, as Slurm writes it. */
const numbersOf = (ranges: string): number[] =>
  ranges.split(',').flatMap((range) => {
    const [first = 0, last = first] = range.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });

/** Parses the GPUs in a line of `placed`. */
function devicesIn(text: string): Pick<Placement, 'devices' | 'areNamed'> {
  if (text === '-') return { devices: [], areNamed: false };
  const [, ranges, visible] = grantedOnly.exec(text) ?? [];
  if (ranges === undefined) return { devices: text.split(','), areNamed: true };
  const numbers = numbersOf(ranges);
  // If a job sees only its own GPUs, CUDA numbers them from 0, while Slurm reports their numbers on the node.
  const isConstrained = Number(visible) === numbers.length;
  const devices = numbers.map((number, index) => String(isConstrained ? index : number));
  return { devices, areNamed: false };
}

/** The placement that the batch script of this job has recorded; null if the script has not started. */
export function placementOf(directory: string, id: number): Placement | null {
  const text = readOrNothing(files(directory).placed);
  const lines = [...text.matchAll(placedLine)].filter(([, each]) => Number(each) === id);
  const [, , node = '', devices = ''] = lines.at(-1) ?? [];
  if (lines.length === 0) return null;
  return { node, ...devicesIn(devices), starts: lines.length };
}

/** Lets the batch script of this submission start the runner. @throws the system's error */
export const allowStart = (directory: string, id: number): void => overwrite(files(directory).go, `${id}\n`);

/** The last line that the batch script printed; empty if there is none. */
export function lastOutput(directory: string): string {
  try {
    const descriptor = openOwnFile(files(directory).out, constants.O_RDONLY);
    try {
      const lines = tailOf(descriptor, tailBytes).toString().split('\n');
      return excerpt(lines.findLast((line) => line.trim() !== '')?.trim() ?? '', 500);
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return '';
  }
}

/** Makes an NFS client ask its server which files the directory has, by creating a file there. */
export function refreshDirectory(directory: string): void {
  const probe = path.join(directory, `.refresh-${process.pid}`);
  try {
    closeSync(openOwnFile(probe, constants.O_WRONLY | constants.O_CREAT));
    rmSync(probe, { force: true });
  } catch {
    // The disk is full or the directory is gone; the client's view may then be out of date.
  }
}

/** Whether a runner has ever had the job; true if that cannot be determined, so that no job runs twice. */
export function hasRun(directory: string): boolean {
  const { claim, end } = runFiles(directory);
  return ![claim, end].every(isGone);
}
