/** The exact answer of `GET /health`. */
export const healthy = { status: 'ok' } as const;

/** The job that holds a GPU, as far as the sender may know. */
export interface DeviceJob {
  readonly job_id?: string | undefined;
  readonly owner?: string | null | undefined;
}

/** Why new jobs do not get a GPU: an admin has drained it, or it is faulty. */
export type OutOfUse = 'drained' | 'faulty';

/** The answer of `GET /available_devices`. */
export interface DeviceList {
  /** GPU ids as nvidia-smi gives them. */
  readonly devices_index: readonly number[];
  readonly devices_name: readonly string[];
  /** Whether each GPU is free; only for the GPUs of a cluster. */
  readonly devices_free?: readonly boolean[] | undefined;
  /**
   * The job that uses each GPU, null for none; only for the GPUs of one machine. A job that the sender may not see has no fields.
   */
  readonly devices_jobs?: readonly (DeviceJob | null)[] | undefined;
  /** All jobs on each GPU, oldest first; only while several share one. */
  readonly devices_shared?: readonly (readonly DeviceJob[])[] | undefined;
  /** Why new jobs do not get each GPU, null if they do; absent if all GPUs are available to them. */
  readonly devices_out?: readonly (OutOfUse | null)[] | undefined;
  /** The apps loaded on each GPU for the sender's jobs, or for any job if the sender is an admin; absent if there are none. */
  readonly devices_loaded?: readonly (readonly string[])[] | undefined;
  /** The apps loaded without a GPU, for the sender's jobs, or for any job if the sender is an admin; absent if there are none. */
  readonly cpu_loaded?: readonly string[] | undefined;
}

/**
 * The answer of `GET /limits`: the limits of this server, so that a client can check them before it uploads, and its
 * version. Limits may be added later; clients ignore unknown ones.
 */
export interface Limits {
  /** Version of remote-app on the server. */
  readonly version: string;
  /** Maximum size of one file, in bytes. */
  readonly max_file_size: number;
  /** Maximum total size of a submission's files, in bytes. */
  readonly max_upload_size: number;
  /** Maximum size of the archive of a data set, and of its extracted content, in bytes; null if the other limits apply to it. */
  readonly max_dataset_size: number | null;
  /** Maximum number of the sender's active jobs; null for no personal limit. */
  readonly max_jobs: number | null;
  /** Maximum number of GPUs that the sender's jobs may use at once; null for no personal limit. */
  readonly max_gpus: number | null;
  /** Maximum number of bytes that the sender's jobs may keep on the server; null for no personal limit. */
  readonly max_kept: number | null;
  /** Seconds that a job and its result are kept after its end by default. */
  readonly grace: number;
  /** Maximum seconds that a job may request with its field `keep` instead. */
  readonly max_keep: number;
  /** Maximum run time of a job in seconds; null for no limit. */
  readonly max_run_time: number | null;
  /** Maximum run time of a fine-tuning in seconds; null for no limit. */
  readonly max_fine_tune_time: number | null;
  /** Whether submissions are refused unless their field `deidentified` declares them de-identified. */
  readonly require_deidentified: boolean;
  /**
   * For how many seconds an upload is kept after its last use; null if this server does not support uploads, and accepts files
   * only in forms.
   */
  readonly uploads: { readonly keep: number } | null;
  /** Limits that apply to everybody: active jobs of all owners together, and bytes of one upload. */
  readonly of_server: {
    readonly max_jobs: number;
    readonly max_upload_size: number;
    /** Limits of each owner with the role `user`, unless the tokens file sets others. */
    readonly user: { readonly max_jobs: number | null; readonly max_kept: number | null };
  };
}

/** The answer of the `/drain` routes. */
export interface DrainState {
  /** Whether new jobs are refused. */
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
