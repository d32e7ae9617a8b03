/** What `GET /health` answers with, exactly. */
export const healthy = { status: 'ok' } as const;

/** The job that holds a GPU, as far as whoever asks may know it. */
export interface DeviceJob {
  readonly job_id?: string | undefined;
  readonly owner?: string | null | undefined;
}

/** What `GET /available_devices` answers with. */
export interface DeviceList {
  /** GPU ids as nvidia-smi gives them. */
  readonly devices_index: readonly number[];
  readonly devices_name: readonly string[];
  /** Whether no job holds it; only of the GPUs of a cluster. */
  readonly devices_free?: readonly boolean[] | undefined;
  /** Which job holds each, null for none; only of the GPUs of one machine. A job that whoever asks may not see has no fields. */
  readonly devices_jobs?: readonly (DeviceJob | null)[] | undefined;
  /** Which apps are loaded on each for jobs of whoever asks, an admin of all; only where one is. */
  readonly devices_loaded?: readonly (readonly string[])[] | undefined;
}

/**
 * What `GET /limits` answers with: what this server takes at most, so that a client can tell before it uploads. More may be
 * added; a client passes over what it does not know.
 */
export interface Limits {
  /** Bytes of one file. */
  readonly max_file_size: number;
  /** Bytes of all files of a submission together. */
  readonly max_upload_size: number;
  /** Bytes of the archive of a data set, and of what it extracts to; null where the other limits count for it. */
  readonly max_dataset_size: number | null;
  /** Jobs that whoever asks may have active; null for no limit of theirs. */
  readonly max_jobs: number | null;
  /** GPUs that their jobs may have at once. */
  readonly max_gpus: number | null;
  /** Bytes that their jobs may keep on the server. */
  readonly max_kept: number | null;
  /** Seconds that a job and its result are kept after its end. */
  readonly grace: number;
  /** Seconds that a job may ask for instead, with its field `keep`. */
  readonly max_keep: number;
  /** Seconds that a job may run; null for as long as it takes. */
  readonly max_run_time: number | null;
  /** The same for fine-tuning. */
  readonly max_fine_tune_time: number | null;
}

/** What the routes of `/drain` answer with. */
export interface DrainState {
  /** New jobs are refused. */
  readonly draining: boolean;
  /** Jobs that have not ended, and uploads that may become jobs. */
  readonly active: number;
}

/** RAM or VRAM; 1 GB is 1024^3 bytes. */
export interface MemoryUse {
  readonly used_gb: number;
  readonly total_gb: number;
}
