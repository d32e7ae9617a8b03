/** Devices that a job asks for (interface.md, Submission: `gpu`). */
export type DeviceRequest =
  | { readonly kind: 'gpus'; readonly ids: readonly number[] }
  | { readonly kind: 'anyGpu' }
  | { readonly kind: 'cpu'; readonly workers: number };

/** What a submission says of devices. */
export interface AskedDevices {
  /** GPUs by their ids; undefined where it names none. */
  readonly gpus: readonly number[] | undefined;
  /** It asked for the CPU. */
  readonly isCpu: boolean;
  readonly workers: number;
}

/** What a job was given. */
export interface Grant {
  /** Ids at the time of the grant. */
  readonly gpus: readonly number[];
  /** UUIDs of these GPUs, those that were told: a later server may know the same GPUs by other ids. */
  readonly gpuUuids: readonly string[];
  /** CPU slots; 0 for a GPU job. */
  readonly cpuSlots: number;
}

/** A job by its directory. */
export interface JobPlace {
  readonly id: string;
  readonly path: string;
}

/** What an executor is given: a job directory and what the job asks for. */
export interface RunOrder {
  readonly directory: JobPlace & {
    /** Working directory of the command. */
    readonly workspace: string;
    /** Where the command writes its result. */
    readonly output: string;
  };
  readonly devices: DeviceRequest;
  /** Milliseconds that it may run; null for as long as it takes. */
  readonly timeLimit: number | null;
  /** An earlier server accepted it: devices that are not there at the moment are waited for. */
  readonly isAccepted: boolean;
  /** What an earlier server wrote down that it was given; null where it was not placed yet. */
  readonly grant: Grant | null;
  /** Added to the environment of the command, with what tells it its devices. */
  readonly environment: Readonly<Record<string, string>>;
  /** Program and arguments. Asked for once `placed` has been told of. */
  readonly command: () => readonly string[];
}

/** It waits. Told again whenever something of it changes. */
export interface Waiting {
  readonly kind: 'waiting';
  /** For what, in words. */
  readonly for: string;
  /** 1 is next. */
  readonly position: number;
}

/** It was given devices. Its command starts when whoever was told goes on, and not before. */
export interface Placed {
  readonly kind: 'placed';
  /** In words. */
  readonly where: string;
  readonly grant: Grant;
}

/** What ended a run other than its command: nothing where that is not known. */
export type Fault = 'diskFull' | 'lost' | 'timeLimit' | 'outOfMemory';

/** It has ended: no process of it is left, and its devices are free. */
export interface Ended {
  readonly kind: 'ended';
  /** As a shell has it: 128 and the number of the signal where one ended it. Null where there is none to have. */
  readonly exitCode: number | null;
  /** Name of the signal that ended it. */
  readonly signal: string | null;
  /** `outOfMemory` is what a SIGKILL of nobody's stands for, as no system tells for certain. */
  readonly fault: Fault | null;
  /** A sentence for people, where the exit code does not say it all. */
  readonly error: string | null;
  /** Lines of output that are not in the log: the disk did not take them. */
  readonly lostLines: number;
}

export type RunEvent = Waiting | Placed | Ended;

/** Where jobs run. Nothing else in the server knows how they are placed, started, ended or seen to be alive. */
export interface Executor {
  /**
   * The devices that a new job asks for.
   * @throws ServiceError where they are known not to be there
   */
  check(asked: AskedDevices): DeviceRequest;
  /**
   * Runs a job to its end, which is the last event; one that runs already, or has run, is found again and not run twice.
   * What an earlier server gave it is taken from the others before this returns.
   * @throws the events: an Error in words where the job cannot be run at all
   */
  run(order: RunOrder): AsyncIterable<RunEvent>;
  /**
   * Ends a job, wherever it is, also one that only an earlier server ran. Resolves when no process of it is left.
   * Never throws nor rejects.
   */
  stop(job: JobPlace): Promise<void>;
  /** Whether something works on the job; true where that cannot be told. */
  isRunning(job: JobPlace): boolean;
  /** Jobs that run in directories directly below this one. */
  runningUnder(directory: string): readonly JobPlace[];
  /**
   * Keeps from others what an earlier server's run may hold, where nothing but its directory is known; returns what
   * lets that go.
   */
  hold(job: JobPlace): () => void;
}
