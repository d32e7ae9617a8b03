import {
  type AskedGpus,
  type Capacity,
  type JobStart,
  type Needs,
  type OutOfUse,
  ServiceError,
} from '../../contract/index.js';
import type { Usage } from '../../runner/index.js';

/** The current limits of owners; null means no limit. */
export interface OwnerLimits {
  /** GPUs that an owner may have at once. */
  readonly maxGpus: (owner: string | null) => number | null;
  /** Jobs that an owner may have at once. */
  readonly maxJobs: (owner: string | null) => number | null;
}

/** Devices that a job requests (docs/http.md, Submission). */
export type DeviceRequest =
  | { readonly kind: 'gpus'; readonly ids: readonly number[] }
  | { readonly kind: 'anyGpu' }
  | { readonly kind: 'cpu'; readonly workers: number };

/** Number of GPUs in a request. */
export function gpusOf(request: DeviceRequest): number {
  if (request.kind === 'cpu') return 0;
  return request.kind === 'anyGpu' ? 1 : request.ids.length;
}

/** The devices that a submission requests. */
export interface AskedDevices extends AskedGpus {
  readonly workers: number;
}

/** A device that jobs can request by its id. */
export interface Device {
  readonly id: number;
  readonly name: string;
  /** Whether no job holds it. */
  readonly isFree: boolean;
  /** Identifies the GPU even if its id has changed; empty if nvidia-smi does not report it. */
  readonly uuid?: string;
  /** The machine that has the device, if there are several machines. */
  readonly node?: string;
  /** Why new jobs do not get the device; absent or null if they may. */
  readonly out?: OutOfUse | null;
}

/** Memory of devices, in bytes. */
export interface DeviceMemory {
  readonly used: number;
  readonly total: number;
}

/** The devices that a job was given. */
export interface Grant {
  /** Ids at the time of the grant. */
  readonly gpus: readonly number[];
  /** UUIDs of these GPUs, as far as they are known: a later server may see the same GPUs under other ids. */
  readonly gpuUuids: readonly string[];
  /** CPU slots; 0 for a GPU job. */
  readonly cpuSlots: number;
}

/** @throws ServiceError `unknownGpu` for ids of GPUs that this server does not have */
export function refuseUnknown(ids: readonly number[], gpus: readonly Pick<Device, 'id'>[]): void {
  const unknown = ids.filter((id) => !gpus.some((gpu) => gpu.id === id));
  if (unknown.length === 0) return;
  const known = gpus.map(({ id }) => id).join(', ') || 'none';
  throw new ServiceError('unknownGpu', `Unknown GPU id(s): ${unknown.join(', ')}; this server has: ${known}`);
}

/**
 * Where a job may run (docs/http.md, Submission).
 * @param known the GPUs of this server; null while they are not known: a job that wants one waits until they are, and is
 *   checked then
 * @throws ServiceError `noGpu` or `unknownGpu`
 */
export function checkDevices(
  { gpus: ids, isCpu, workers }: AskedDevices,
  known: readonly Pick<Device, 'id'>[] | null,
): DeviceRequest {
  if (!ids) return isCpu || known?.length === 0 ? { kind: 'cpu', workers } : { kind: 'anyGpu' };
  if (known?.length === 0) {
    const detail = "This server has no GPU; leave out 'gpu', or send 'cpu', to run on its CPU";
    throw new ServiceError('noGpu', detail);
  }
  if (known) refuseUnknown(ids, known);
  return { kind: 'gpus', ids };
}

/** The environment variables that tell a command its GPUs. CUDA has no numbers for MIG instances, only UUIDs. */
export function gpuEnvironment({ gpus, gpuUuids }: Pick<Grant, 'gpus' | 'gpuUuids'>): Record<string, string> {
  if (gpus.length === 0) return { CUDA_VISIBLE_DEVICES: '' };
  const names = gpuUuids.some((uuid) => uuid.startsWith('MIG-')) ? gpuUuids : gpus;
  // With this order CUDA numbers GPUs as nvidia-smi does.
  return { CUDA_DEVICE_ORDER: 'PCI_BUS_ID', CUDA_VISIBLE_DEVICES: names.join(',') };
}

/** The ids of GPUs that such an environment names; undefined if the variable is not set. */
export function gpusOfEnvironment(environment: Readonly<Record<string, string>>): number[] | undefined {
  const names = environment.CUDA_VISIBLE_DEVICES?.split(',');
  return names?.filter((name) => /^\d+$/.test(name)).map(Number);
}

/** A job, identified by its directory. */
export interface JobRef {
  readonly id: string;
  readonly path: string;
}

/** What a job may access besides its own files, if jobs are isolated from each other. */
export interface JobAccess {
  /** Whether it may use the network. */
  readonly network: boolean;
  /** Directories that it may read with everything below them: its app's. */
  readonly directories: readonly string[];
  /** Variables that tell it where these directories are. */
  readonly environment: Readonly<Record<string, string>>;
}

/** An app that is loaded once and then runs one job after the other: `"resident": true` in its app.json. */
export interface Resident {
  /** Its name in lists of loaded apps: the identifier of the app or of the engine. */
  readonly name: string;
  /** Program and arguments that load it. */
  readonly command: readonly string[];
  /** How many arguments at the start of a job's command name the program; the worker gets the rest. */
  readonly programWords: number;
  /** Files and directories of the app. When one of them changes, the app is loaded again. */
  readonly watched: readonly string[];
  /** Whether one worker runs jobs of all owners. */
  readonly isShared: boolean;
  /** What it may access; for an engine, the directories of all apps that it runs. */
  readonly access: () => JobAccess;
}

/** A worker as clients see it: an app that is currently loaded. */
export interface WorkerInfo {
  readonly name: string;
  /** Owner of the job that it was loaded for; null for the admin. */
  readonly owner: string | null;
  /** Whether it is for jobs of all owners, not only of this one. */
  readonly isShared: boolean;
  /** Ids of its GPUs; empty on the CPU. */
  readonly gpus: readonly number[];
}

/** What an executor is given: a job directory and what the job requests. */
export interface RunOrder {
  readonly directory: JobRef & {
    /** The submitted files. */
    readonly input: string;
    /** Working directory of the command. */
    readonly workspace: string;
    /** For temporary files, inside the working directory. */
    readonly temporary: string;
    /** Where the command writes its result. */
    readonly output: string;
  };
  readonly devices: DeviceRequest;
  /** What its app declares that it needs. */
  readonly needs: Needs;
  /** Whether it must have its GPUs to itself, whatever its app declares. */
  readonly isAlone: boolean;
  /** Its owner; null for the admin. Owners whose jobs wait get devices in turn. */
  readonly owner: string | null;
  /** Milliseconds that it may run; null for no limit. */
  readonly timeLimit: number | null;
  /** Whether an earlier server accepted it: if so, it waits for devices that are currently missing. */
  readonly isAccepted: boolean;
  /** The devices that an earlier server gave it, according to the record; null if it was not placed yet. */
  readonly grant: Grant | null;
  /** Added to the environment of the command. The executor adds the variables that name its devices. */
  readonly environment: Readonly<Record<string, string>>;
  /** Program and arguments on these devices. Called after `placed` was handled. */
  readonly command: (grant: Grant) => readonly string[];
  /** What the job may access besides its own files. */
  readonly access: () => JobAccess;
  /** How its app is loaded on these devices, if the app stays loaded; otherwise null. */
  readonly resident?: (grant: Grant) => Resident | null;
}

/**
 * The job waits. Sent again whenever one of the values changes, also after `placed` if a fault of the machine kept its
 * program from starting.
 */
export interface Waiting {
  readonly kind: 'waiting';
  /** A phrase such as `a free GPU`. */
  readonly for: string;
  /** Position in the queue: 1 is next. */
  readonly position: number;
}

/** The job was given devices. Its command starts only after the consumer has handled this event. */
export interface Placed {
  readonly kind: 'placed';
  /** The devices, as the log names them. */
  readonly where: string;
  readonly grant: Grant;
  /** For a resident app, whether it is loaded already. */
  readonly start?: JobStart;
}

/** Why a run ended, if not because of the command itself. */
type Fault = 'diskFull' | 'lost' | 'timeLimit' | 'outOfMemory' | 'notStarted';

/** The job has ended: none of its processes is left, and its devices are free. */
export interface Ended extends Usage {
  readonly kind: 'ended';
  /** As in a shell: 128 plus the signal's number if a signal ended it. Null if there is no exit code. */
  readonly exitCode: number | null;
  /** Name of the signal that ended it. */
  readonly signal: string | null;
  /**
   * Null if there was no fault, or if it is not known. `outOfMemory` is assumed after a SIGKILL that this service did not send.
   */
  readonly fault: Fault | null;
  /** A sentence for people, if the exit code is not enough. */
  readonly error: string | null;
  /** The fault of the machine that made the job fail, as a sentence. */
  readonly machineFault?: string;
  /** Lines of output that are missing from the log because the disk was full. */
  readonly lostLines: number;
  /** Peak memory of its processes on any one GPU, in bytes; absent if not known. */
  readonly peakGpuMemory?: number;
  /** ISO 8601; absent if the runner did not report it. */
  readonly endedAt?: string;
  /** Whether its worker was gone, so the app was started just for this job. */
  readonly wasAlone?: boolean;
}

export type RunEvent = Waiting | Placed | Ended;

/** Runs jobs. Nothing else in the server knows how jobs are placed, started, ended or checked for being alive. */
export interface Executor {
  /**
   * The devices that jobs can currently request by id.
   * @throws ServiceError `gpusUnknown` while they are not known
   */
  devices(): Promise<readonly Device[]>;
  /**
   * The used and total memory of these devices together.
   * @throws ServiceError `unknownGpu`, `gpusUnknown` if it is not known now, or `memoryUnknown` if it never is
   */
  memory(ids: readonly number[]): Promise<DeviceMemory>;
  /** Maximum resources of a single job. */
  capacity(): Omit<Capacity, 'disk'>;
  /**
   * Checks and returns the device request of a new job.
   * @throws ServiceError if the devices are known not to exist
   */
  check(asked: AskedDevices): DeviceRequest;
  /**
   * Runs a job; its end is the last event. A job that is running or has run already is followed instead of being run twice. The
   * devices that an earlier server gave it are reserved before this returns.
   * @throws Error with a sentence for the user, also from the iteration, if the job cannot be run at all
   */
  run(order: RunOrder): AsyncIterable<RunEvent>;
  /**
   * Ends a job in any state, including one that only an earlier server ran. Resolves when none of its processes is left.
   * Never throws or rejects.
   */
  stop(job: JobRef): Promise<void>;
  /** Whether the job may be running; true if that cannot be determined. */
  isRunning(job: JobRef): boolean;
  /** Forgets a run that has ended and has no processes left, so that the job can be run again. */
  forget(job: JobRef): void;
  /** Disk space in bytes of files that a running job has deleted but still has open, as far as it can be determined. */
  removedButOpen?(job: JobRef): Promise<number>;
  /** Jobs that run in directories directly below this one. */
  runningUnder(directory: string): readonly JobRef[];
  /**
   * Reserves the devices that a run of an earlier server may hold, if only its directory is known. Returns a function
   * that releases them.
   */
  reserve(job: JobRef): () => void;
  /**
   * Stops giving these GPUs to new jobs, or resumes it; absent if this executor does not decide which GPUs jobs get.
   * @throws ServiceError `unknownGpu` or `gpusUnknown`
   */
  drainGpus?(ids: readonly number[], isDrained: boolean): void;
  /** Faults of the machine that keep jobs waiting at the moment, as sentences. */
  faults?(): readonly string[];
  /** The workers of this executor, including those that no job uses. */
  workers?(): readonly WorkerInfo[];
}
