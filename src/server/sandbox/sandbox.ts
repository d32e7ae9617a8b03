import { existsSync } from 'node:fs';
import type { Grant, Reach } from '../executors/index.js';
import { type FreezeRules, freeze, secretsOf } from './freeze.js';
import { gpuDevices } from './gpu-devices.js';
import { kernelSettings } from './kernel-settings.js';
import { packagesAbove } from './packages-above.js';
import { programPlaces } from './program-places.js';
import { type Stage, stageWords } from './stage.js';
import { nameServers, systemFiles } from './system-files.js';
import { tryStage } from './try-stage.js';
import { cover, isWithin, placesOf, realPath, type Visible, withRealPaths } from './visible.js';

/** What `TMPDIR` names in a sandbox: the directory of the job, or of the loaded app, under a name that is short enough for sockets. */
export const temporaryInSandbox = '/tmp';
/** Where a loaded app sees its jobs a second time, for the same reason. */
export const jobsInSandbox = '/run/jobs';

/** What the admin says of every job's sandbox. */
export interface SandboxRules extends FreezeRules {
  /** Files and directories that jobs see beside their own and their app's: `serve --bind` and `--bind-rw`. */
  readonly binds: readonly Visible[];
}

/** One job, for its sandbox. */
export interface Confined {
  readonly directory: {
    readonly input: string;
    readonly output: string;
    readonly workspace: string;
    readonly temporary: string;
  };
  readonly command: readonly string[];
  readonly grant: Grant;
  readonly reach: Reach;
  /** Bytes that the job may use; null for as many as there are. */
  readonly memory: number | null;
}

/** A loaded app, for the sandbox that it has for all its jobs. */
export interface ConfinedWorker extends Omit<Confined, 'directory'> {
  /** Where it stands between two jobs. */
  readonly home: string;
  readonly temporary: string;
  readonly stage: Stage;
  /** Files that it is made of, beside those of its reach. */
  readonly watched: readonly string[];
}

/**
 * The descriptor on which bwrap tells how the command ended, and the one from which it reads the filter of system calls. The
 * runner, or the keeper, has the other end of each; the command does not have them.
 */
const descriptors = { job: { status: 3, filter: 4 }, worker: { status: 4, filter: 6 } };

/**
 * Namespaces of its own for what a job could reach others by. Nobody in it gets more rights than the server's user, also
 * not by a user namespace of its own. It ends with its parent, and everything in it ends with it.
 */
const isolation = [
  '--unshare-user',
  '--disable-userns',
  '--unshare-pid',
  '--unshare-ipc',
  '--unshare-uts',
  '--unshare-cgroup-try',
  '--cap-drop',
  'ALL',
  '--die-with-parent',
];

/**
 * The system's files, read-only, without what is not for everybody.
 * @param frozen arguments that freeze directories of the system
 */
function systemMounts(frozen: readonly string[]): string[] {
  const { directories, links, hiddenDirectories, hiddenFiles } = systemFiles();
  return [
    ...directories.flatMap((each) => ['--ro-bind', each, each]),
    ...frozen,
    ...links.flatMap(([name, target]) => ['--symlink', target, name]),
    ...hiddenDirectories.flatMap((each) => [...cover(each, true), '--remount-ro', each]),
    ...hiddenFiles.flatMap((each) => cover(each, false)),
  ];
}

/**
 * A `/dev` and a `/proc` that show the job's own GPUs and processes alone. Nothing can be made in `/dev` but shared memory,
 * which is memory of the job, and no setting of the kernel can be changed.
 */
const kernelMounts = (devices: readonly string[], memory: number | null): string[] => [
  '--proc',
  '/proc',
  ...kernelSettings().flatMap((each) => ['--ro-bind', each, each]),
  '--dev',
  '/dev',
  ...devices.flatMap((each) => ['--dev-bind-try', each, each]),
  ...(memory === null ? [] : ['--size', String(memory)]),
  '--tmpfs',
  '/dev/shm',
  '--remount-ro',
  '/dev',
];

/** The arguments of bwrap that every sandbox of this machine begins with; with nothing more they are a test of it. */
export const emptySandbox = (
  network: boolean,
  devices: readonly string[] = [],
  memory: number | null = null,
  frozen: readonly string[] = [],
): string[] => [
  ...isolation,
  ...(network ? [] : ['--unshare-net']),
  ...systemMounts(frozen),
  ...kernelMounts(devices, memory),
];

/** What differs between the sandbox of a job and that of a loaded app. */
interface Mounts extends Omit<Confined, 'directory'> {
  readonly temporary: string;
  readonly workspace: string;
  /** The mounts of what it may write. */
  readonly own: readonly string[];
}

/** Sorts mounts so that none hides what is below it. Of two in one place the later one of the list stays above. */
const parentsFirst = <Mount extends { readonly at: string }>(mounts: readonly Mount[]): Mount[] =>
  [...mounts].sort((a, b) => (a.at === b.at ? 0 : a.at < b.at ? -1 : 1));

/** Puts jobs into sandboxes of bubblewrap. */
export class Sandbox {
  /** The filter of system calls, which bwrap reads, in base64; undefined if there is none. */
  readonly filter: string | undefined;
  #stageProblem: Promise<string | null> | undefined;

  /** @param program bwrap, absolute */
  constructor(
    private readonly program: string,
    private readonly rules: SandboxRules,
    filter: Buffer | undefined,
  ) {
    this.filter = filter?.toString('base64');
  }

  /**
   * The words that a job's command line begins with, so that it runs in its sandbox: there it sees the system, its app,
   * what the admin has named, and of the data directory its own Input, Output and Workspace.
   * @param searchPath the `PATH` of the command
   */
  wrap({ directory, ...more }: Confined, searchPath: string): string[] {
    const { input, output, workspace, temporary } = directory;
    const own = [input, output, workspace].flatMap((each) => ['--bind', each, each]);
    return this.#words({ ...more, temporary, own, workspace }, descriptors.job, searchPath);
  }

  /**
   * The same for a loaded app, which sees Input, Output and Workspace of the job that it has, and of no other.
   * @throws Error in words where it cannot be made
   */
  wrapWorker({ home, stage, watched, reach, ...more }: ConfinedWorker, searchPath: string): string[] {
    const shown = [stage.jobs, jobsInSandbox].flatMap((place) => ['--ro-bind', stage.directory, place]);
    const own = ['--bind', home, home, ...shown];
    // The program itself comes with what belongs to it: alone, a link in an environment of Python could not be mounted.
    const places = programPlaces(more.command[0] ?? '', searchPath);
    const others = watched.filter((file) => !places.some((place) => isWithin(place, file)));
    const all = { ...reach, directories: [...reach.directories, ...others] };
    const inner = { ...more, reach: all, own, workspace: home };
    return [...stageWords(this.program, stage), ...this.#words(inner, descriptors.worker, searchPath)];
  }

  /** Why no loaded app can have a sandbox on this machine; null if one can. Tried with a real one, once. */
  stageProblem(): Promise<string | null> {
    this.#stageProblem ??= tryStage(this.program);
    return this.#stageProblem;
  }

  #words(
    { command, grant, reach, memory, temporary, own, workspace }: Mounts,
    { status, filter }: (typeof descriptors)['job'],
    searchPath: string,
  ): string[] {
    const system = systemFiles().directories;
    // Seen already, under this name and without links.
    const isOfSystem = (file: string) =>
      [file, realPath(file)].every((name) => system.some((each) => isWithin(each, name)));
    const readable = [
      ...reach.directories.flatMap((each) => [each, ...packagesAbove(each)]),
      ...programPlaces(command[0] ?? '', searchPath),
      ...(reach.network ? nameServers() : []),
    ];
    const isSecret = secretsOf(this.rules);
    const visible = withRealPaths([
      ...readable.filter((each) => !isOfSystem(each)).map((each) => ({ path: each, isWritable: false })),
      ...this.rules.binds,
    ]).filter((each) => existsSync(each.path) && !isSecret(each.path));
    const shown = visible.map((each) => each.path);
    const needed = [...readable, ...shown].map(realPath);
    const frozenOfSystem = parentsFirst(freeze(this.rules, system, needed));
    const frozen = freeze(this.rules, shown, needed);
    const mounts = parentsFirst([
      ...visible.map((each) => ({
        at: each.path,
        words: [each.isWritable ? '--bind' : '--ro-bind', each.path, each.path],
      })),
      ...frozen,
    ]);
    const hidden = placesOf(this.rules.dataDirectory, [...system, ...shown]);
    const sealed = [...frozenOfSystem, ...frozen].map(({ at }) => at);
    return [
      this.program,
      '--json-status-fd',
      String(status),
      ...(this.filter === undefined ? [] : ['--seccomp', String(filter)]),
      ...emptySandbox(
        reach.network,
        gpuDevices(grant),
        memory,
        frozenOfSystem.flatMap(({ words }) => words),
      ),
      '--dir',
      '/run',
      '--dir',
      '/var',
      // Relative: bwrap makes the places of binds from outside of the sandbox, where `/tmp` would be another one.
      '--symlink',
      '../tmp',
      '/var/tmp',
      // On the disk, and not in memory: it goes with the job, and counts to it.
      ...['--bind', temporary, temporaryInSandbox],
      ...mounts.flatMap(({ words }) => words),
      ...hidden.flatMap((each) => cover(each, true)),
      ...own,
      ...['--chdir', workspace],
      // Once everything in them is mounted.
      ...[...sealed, ...hidden].flatMap((each) => ['--remount-ro', each]),
      ...['--remount-ro', '/'],
      '--',
    ];
  }
}
