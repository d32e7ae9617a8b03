import { existsSync } from 'node:fs';
import { findProgram } from '../../files/index.js';
import type { Grant, JobAccess } from '../executors/index.js';
import { type JobMounts, jobMountWords, problemOf, tryJobMounts, tryProgram } from './job-mounts.js';
import { gpuDevices, kernelSettings, nameServers, systemFiles } from './machine-files.js';
import { linkedPackages, packagesAbove, programPlaces } from './program-places.js';
import {
  cover,
  hiddenPlaces,
  isWithin,
  realPath,
  type SandboxRules,
  withRealPaths,
} from './visible-files.js';

/**
 * The value of `TMPDIR` in a sandbox: the directory of the job, or of the worker, under a name that is short enough
 * for sockets.
 */
export const temporaryInSandbox = '/tmp';
/** Where a worker sees its jobs a second time, under a shorter path. */
export const jobsInSandbox = '/run/jobs';

/** One job, for its sandbox. */
interface Confined {
  readonly directory: {
    readonly input: string;
    readonly output: string;
    readonly workspace: string;
    readonly temporary: string;
  };
  readonly command: readonly string[];
  readonly grant: Grant;
  readonly access: JobAccess;
  /** Bytes that the job may use; null for no limit. */
  readonly memory: number | null;
}

/** A worker, which has one sandbox for all its jobs. */
interface ConfinedWorker extends Omit<Confined, 'directory'> {
  /** Its working directory between two jobs. */
  readonly home: string;
  readonly temporary: string;
  readonly jobMounts: JobMounts;
  /** Files that belong to the app, besides those in `access`. */
  readonly watched: readonly string[];
}

/**
 * The descriptor on which bwrap reports how the command ended, and the one from which it reads the filter of system calls.
 * The runner or the worker host has the other ends; the command has neither.
 */
const descriptors = { job: { status: 3, filter: 4 }, worker: { status: 4, filter: 6 } };

/**
 * Private namespaces, so that a job cannot reach other processes. Nobody inside gets more rights than the server's user,
 * not even through another user namespace. The sandbox ends with its parent, and every process in it ends with the
 * sandbox.
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

/** The system's files, read-only, without those that not everybody on the machine may read. */
function systemMounts(): string[] {
  const { directories, links, hiddenDirectories, hiddenFiles } = systemFiles();
  return [
    ...directories.flatMap((each) => ['--ro-bind', each, each]),
    ...links.flatMap(([name, target]) => ['--symlink', target, name]),
    ...hiddenDirectories.flatMap((each) => [...cover(each, true), '--remount-ro', each]),
    ...hiddenFiles.flatMap((each) => cover(each, false)),
  ];
}

/**
 * A `/dev` and a `/proc` that show only the job's own GPUs and processes. Nothing can be created in `/dev` except shared
 * memory, which counts as memory of the job, and no setting of the kernel can be changed.
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

/** The arguments of bwrap that every sandbox of this machine begins with. On their own they serve as a test. */
const emptySandbox = (
  network: boolean,
  devices: readonly string[] = [],
  memory: number | null = null,
): string[] => [
  ...isolation,
  ...(network ? [] : ['--unshare-net']),
  ...systemMounts(),
  ...kernelMounts(devices, memory),
];

/** The differences between a job's sandbox and a worker's. */
interface Mounts extends Omit<Confined, 'directory'> {
  readonly temporary: string;
  readonly workspace: string;
  /** The mounts of directories that it may write to. */
  readonly own: readonly string[];
}

/** Runs jobs in bubblewrap sandboxes. */
export class Sandbox {
  /** The filter of system calls, which bwrap reads, in base64; undefined if there is none. */
  readonly filter: string | undefined;
  #jobMountsProblem: Promise<string | null> | undefined;

  /** @param program absolute path of bwrap */
  constructor(
    private readonly program: string,
    private readonly rules: SandboxRules,
    private readonly systemCalls: Buffer | undefined,
  ) {
    this.filter = systemCalls?.toString('base64');
  }

  /** Starts an empty sandbox. @returns what bwrap said if that failed; null if it works */
  problem(): Promise<string | null> {
    const words = this.systemCalls ? ['--seccomp', '0'] : [];
    const trial = [this.program, ...emptySandbox(false), ...words, '--', 'true'];
    return problemOf(tryProgram(trial, this.systemCalls));
  }

  /**
   * The arguments that precede a job's command, so that it runs in a sandbox. There it sees the system, its app, what the admin
   * has named, and the job's own Input, Output and Workspace.
   * @param searchPath the `PATH` of the command
   */
  wrap({ directory, ...more }: Confined, searchPath: string): string[] {
    const { input, output, workspace, temporary } = directory;
    const own = [input, output, workspace].flatMap((each) => ['--bind', each, each]);
    return this.#words({ ...more, temporary, own, workspace }, descriptors.job, searchPath);
  }

  /**
   * The same for a worker, which sees only the Input, Output and Workspace of its current job.
   * @throws Error that names a missing program
   */
  wrapWorker({ home, jobMounts, watched, access, ...more }: ConfinedWorker, searchPath: string): string[] {
    const shown = [jobMounts.jobs, jobsInSandbox].flatMap((place) => [
      '--ro-bind',
      jobMounts.directory,
      place,
    ]);
    const own = ['--bind', home, home, ...shown];
    // A program is mounted together with its surroundings: a link in a Python environment could not be mounted on its own.
    const places = programPlaces(more.command[0] ?? '', searchPath);
    const others = watched.filter((file) => !places.some((place) => isWithin(place, file)));
    const all = { ...access, directories: [...access.directories, ...others] };
    const inner = { ...more, access: all, own, workspace: home };
    return [...jobMountWords(this.program, jobMounts), ...this.#words(inner, descriptors.worker, searchPath)];
  }

  /** Why no worker can have a sandbox on this machine; null if one can. Tries a real one, once. */
  jobMountsProblem(): Promise<string | null> {
    this.#jobMountsProblem ??= tryJobMounts(this.program, this.rules.dataDirectory);
    return this.#jobMountsProblem;
  }

  #words(
    { command, grant, access, memory, temporary, own, workspace }: Mounts,
    { status, filter }: (typeof descriptors)['job'],
    searchPath: string,
  ): string[] {
    const system = systemFiles().directories;
    // Visible already as a part of the system, both under this name and under its real path.
    const isOfSystem = (file: string) =>
      [file, realPath(file)].every((name) => system.some((each) => isWithin(each, name)));
    const readable = [
      ...access.directories.flatMap((each) => [each, ...packagesAbove(each), ...linkedPackages(each)]),
      ...programPlaces(command[0] ?? '', searchPath),
      ...(access.network ? nameServers() : []),
    ];
    const visible = withRealPaths([
      ...readable.filter((each) => !isOfSystem(each)).map((each) => ({ path: each, isWritable: false })),
      ...this.rules.binds,
    ]).filter((each) => existsSync(each.path));
    const hidden = hiddenPlaces(this.rules, [...system, ...visible.map((each) => each.path)]);
    return [
      this.program,
      '--json-status-fd',
      String(status),
      ...(this.filter === undefined ? [] : ['--seccomp', String(filter)]),
      ...emptySandbox(access.network, gpuDevices(grant, this.rules.gpus?.current ?? []), memory),
      '--dir',
      '/run',
      '--dir',
      '/var',
      // Relative: bwrap creates mount points from outside the sandbox, where `/tmp` is another directory.
      '--symlink',
      '../tmp',
      '/var/tmp',
      // On the disk, not in memory, so that it is removed with the job and counts towards its disk use.
      ...['--bind', temporary, temporaryInSandbox],
      ...visible.flatMap((each) => [each.isWritable ? '--bind' : '--ro-bind', each.path, each.path]),
      ...hidden.flatMap((each) => cover(each, true)),
      ...own,
      ...['--chdir', workspace],
      // Must be last, because nothing can be mounted inside them afterwards.
      ...hidden.flatMap((each) => ['--remount-ro', each]),
      ...['--remount-ro', '/'],
      '--',
    ];
  }
}

/** What one job may use; null for no limit. */
export interface JobLimits {
  /** Bytes. */
  readonly memory: number | null;
  /** Processes and threads. */
  readonly processes: number | null;
}

/**
 * One process of a job may reserve this many times the job's memory limit. The use of a job is checked twice a second; this stops
 * a process that grows faster. It is more than 1 because programs reserve more than they use.
 */
const reserve = 2;

/**
 * The arguments that precede a command inside the sandbox, so that the kernel enforces the limits as far as it can: on the number
 * of processes, which it counts per sandbox except for root, and on the memory that a process may reserve.
 */
export function limitWords({ memory, processes }: JobLimits, searchPath: string): string[] {
  const program = findProgram('prlimit', searchPath) ?? findProgram('prlimit', '/usr/bin:/bin');
  if (program === undefined) return [];
  const words = [
    ...(processes === null ? [] : [`--nproc=${processes}:${processes}`]),
    ...(memory === null ? [] : [`--data=${memory * reserve}:${memory * reserve}`]),
  ];
  return words.length === 0 ? [] : [program, ...words];
}
