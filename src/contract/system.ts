/** The exact answer of `GET /health`. */
export const healthy = { status: 'ok' } as const;

/** The job that holds a GPU, as far as the sender may know. */
export interface DeviceJob {
  readonly job_id?: string | undefined;
  readonly owner?: string | null | undefined;
}

/** Why new jobs do not get a GPU: an admin has drained it, or it does not work. */
export type OutOfUse = 'drained' | 'faulty';

/** The answer of `GET /available_devices`. */
export interface DeviceList {
  /** GPU ids as nvidia-smi gives them. */
  readonly devices_index: readonly number[];
  readonly devices_name: readonly string[];
  /** Whether no job holds it; only for the GPUs of a cluster. */
  readonly devices_free?: readonly boolean[] | undefined;
  /**
   * Which job holds each GPU, null for none; only for the GPUs of one machine. A job that the sender may not see has no
   * fields.
   */
  readonly devices_jobs?: readonly (DeviceJob | null)[] | undefined;
  /** All jobs of each GPU, the oldest first; only while several share one. */
  readonly devices_shared?: readonly (readonly DeviceJob[])[] | undefined;
  /** Why new jobs do not get each GPU, null if they do; absent if they get all of them. */
  readonly devices_out?: readonly (OutOfUse | null)[] | undefined;
  /** Which apps are loaded on each GPU for the sender's jobs, or all for an admin; absent if there are none. */
  readonly devices_loaded?: readonly (readonly string[])[] | undefined;
  /** The same for apps that are loaded without a GPU. */
  readonly cpu_loaded?: readonly string[] | undefined;
}

/**
 * The answer of `GET /limits`: the limits of this server, so that a client can check them before it uploads, and its
 * version. Limits may be added later; clients ignore unknown ones.
 */
export interface Limits {
  /** Of remote-app on the server. */
  readonly version: string;
  /** Bytes of one file. */
  readonly max_file_size: number;
  /** Bytes of all files of a submission together. */
  readonly max_upload_size: number;
  /** Bytes of the archive of a data set, and of its extracted content; null if the other limits apply to it. */
  readonly max_dataset_size: number | null;
  /** Jobs that the sender may have active; null for no personal limit. */
  readonly max_jobs: number | null;
  /** GPUs that their jobs may have at once. */
  readonly max_gpus: number | null;
  /** Bytes that their jobs may keep on the server. */
  readonly max_kept: number | null;
  /** Seconds that a job and its result are kept after the job's end. */
  readonly grace: number;
  /** Seconds that a job may request instead, with its field `keep`. */
  readonly max_keep: number;
  /** Seconds that a job may run; null for no limit. */
  readonly max_run_time: number | null;
  /** The same for fine-tuning. */
  readonly max_fine_tune_time: number | null;
  /** Whether submissions are refused that do not say, with their field `deidentified`, that they are de-identified. */
  readonly require_deidentified: boolean;
  /**
   * Whether files can be sent as uploads that submissions name, and how many seconds one is kept after its last use; null if
   * this server takes them in forms alone.
   */
  readonly uploads: { readonly keep: number } | null;
  /** What holds for everybody, whoever asks: active jobs of all together, and bytes of one upload. */
  readonly of_server: {
    readonly max_jobs: number;
    readonly max_upload_size: number;
    /** What holds for each owner of the role `user`, unless the file of the tokens says otherwise. */
    readonly user: { readonly max_jobs: number | null; readonly max_kept: number | null };
  };
}

/** The answer of the `/drain` routes. */
export interface DrainState {
  /** New jobs are refused. */
  readonly draining: boolean;
  /** Jobs that have not ended, and uploads that may become jobs. */
  readonly active: number;
  /** Ids of the GPUs that new jobs do not get; absent on a server that cannot drain single GPUs. */
  readonly gpus?: readonly number[] | undefined;
}

/** RAM or VRAM; 1 GB is 1024^3 bytes. */
export interface MemoryUse {
  readonly used_gb: number;
  readonly total_gb: number;
}
