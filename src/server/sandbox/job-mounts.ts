import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import path from 'node:path';
import { oneLine } from '../../contract/index.js';
import { findProgram } from '../../files/index.js';
import { type ProgramEnd, runProgram } from '../../programs/index.js';

/**
 * The directory in which a worker sees its jobs. A worker's sandbox is older than its jobs, so it runs inside an outer
 * sandbox whose user may mount. What is mounted below the directory there also appears in the worker's sandbox.
 */
export interface JobMounts {
  /** An empty directory of the worker host. */
  readonly directory: string;
  /** The directory of all jobs, which the sandbox replaces with the one above. */
  readonly jobs: string;
}

/** The descriptor on which the worker host requests that a job be shown or hidden, and learns when that is done. */
const mountsDescriptor = 5;

/** The parts of its directory that a job sees. */
const parts = ['Input', 'Output', 'Workspace'];
/** The paths of these parts, as arguments in the script. */
const places = parts.map((part) => `"$mounts/$job/${part}"`).join(' ');

/**
 * Makes the mounts of the directory shared, and then executes the command that follows. A background process reads lines `show
 * ID` and `hide ID` until the worker host is gone, and answers each when it is done. That process has no other descriptor of the
 * worker host. The job waits for the answer, so the parts are mounted in parallel.
 */
const script = `mounts=$1 jobs=$2
shift 2
mount --bind "$mounts" "$mounts" && mount --make-rshared "$mounts" || exit 1
while read -r verb job; do
  if [ "$verb" = show ]; then
    mkdir -p ${places}
    mounting=
    for part in ${parts.join(' ')}; do
      mount --bind "$jobs/$job/$part" "$mounts/$job/$part" &
      mounting="$mounting $!"
    done
    for each in $mounting; do wait "$each" || verb=failed; done
  else
    umount -l ${places}
    rmdir ${places} "$mounts/$job"
  fi
  echo "$verb"
done <&${mountsDescriptor} >&${mountsDescriptor} 2>/dev/null 3>&- 4>&- 6>&- &
exec "$@" ${mountsDescriptor}<&-`;

/** Drops the capabilities of the outer sandbox: bwrap refuses to start with capabilities that it did not set itself. */
const withoutRights = ['--inh-caps=-all', '--ambient-caps=-all'];

const systemPath = '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin';

/**
 * The arguments before the sandbox command of a worker.
 * @param bwrap path of the program
 * @throws Error that names a missing program
 */
export function jobMountWords(bwrap: string, { directory, jobs }: JobMounts): string[] {
  const [shell, setpriv] = ['sh', 'setpriv'].map((name) => {
    const found = findProgram(name, systemPath);
    if (found === undefined) throw new Error(`there is no program ${name}`);
    return found;
  }) as [string, string];
  return [
    bwrap,
    '--unshare-user',
    '--cap-add',
    'CAP_SYS_ADMIN',
    '--dev-bind',
    '/',
    '/',
    '--die-with-parent',
    '--',
    shell,
    '-c',
    script,
    'sh',
    directory,
    jobs,
    setpriv,
    ...withoutRights,
  ];
}

/** Milliseconds that a trial may take. */
const tryTimeout = 10_000;

/** Runs a trial program in the environment of this process. */
export const tryProgram = (words: readonly string[], input?: Buffer): Promise<ProgramEnd> =>
  runProgram(words, {
    environment: process.env,
    limit: tryTimeout,
    maxBytes: 64 * 1024,
    ...(input ? { input } : {}),
  });

/** Why a trial failed, in one line; null if it did not. */
export async function problemOf(trial: Promise<ProgramEnd>): Promise<string | null> {
  try {
    const { exitCode, signal, stderr, endedFor } = await trial;
    if (exitCode === 0) return null;
    const how = signal === null ? `exit code ${exitCode}` : `ended by ${signal}`;
    const why = endedFor === 'limit' ? `no answer within ${tryTimeout / 1000} seconds` : how;
    return oneLine(stderr.trim().split('\n').at(-1) || why);
  } catch (cause) {
    return oneLine((cause as Error).message);
  }
}

/**
 * Creates a directory for a trial: in the data directory or, if that does not exist, in the nearest existing directory above it.
 */
async function makeProbe(parent: string): Promise<string> {
  const above = path.dirname(parent);
  if (!existsSync(parent) && above !== parent) return makeProbe(above);
  return await mkdtemp(path.join(parent, 'probe-'));
}

/**
 * Tries the outer sandbox with an empty one inside.
 * @param parent the data directory: a service may be allowed to write nowhere else
 * @returns why that failed; null if it works
 */
export async function tryJobMounts(bwrap: string, parent: string): Promise<string | null> {
  let directory: string | null = null;
  try {
    directory = await makeProbe(parent);
    const inner = [bwrap, '--unshare-user', '--ro-bind', '/', '/', '--', 'true'];
    const words = [...jobMountWords(bwrap, { directory, jobs: directory }), ...inner];
    // No job is requested here, so there is nothing to read from the descriptor.
    return await problemOf(tryProgram(['sh', '-c', 'exec "$@" 5</dev/null', 'sh', ...words]));
  } catch (cause) {
    return oneLine((cause as Error).message);
  } finally {
    if (directory !== null) await rm(directory, { recursive: true, force: true }).catch(() => {});
  }
}
