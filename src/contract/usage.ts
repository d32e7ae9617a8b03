/** What an owner's ended jobs on one app have used, and what the owner's jobs keep. */
export interface UsageRow {
  /** Name of the token; null for the token of the environment, or none. */
  readonly owner: string | null;
  readonly app: string;
  readonly jobs: number;
  /** GPU hours: run time multiplied by the number of GPUs. */
  readonly gpu_hours: number;
  /** Hours of CPU time. */
  readonly cpu_hours: number;
  /** Bytes of the uploads. */
  readonly bytes_in: number;
  /** Bytes of the results: of their archives, or of the files of results that are packed during the download. */
  readonly bytes_out: number;
  /** Bytes that the jobs, including active ones, currently keep on the server's disk. */
  readonly bytes_kept: number;
  /** When the last job ended (ISO 8601); the current time while one is active. */
  readonly last_used: string;
}

/** What an owner's uploads keep on disk, in addition to the owner's jobs. */
export interface UsageOfUploads {
  readonly owner: string | null;
  /** Number of uploads. */
  readonly uploads: number;
  /** Bytes that the uploads currently keep on the server's disk. */
  readonly bytes_kept: number;
}

/** The answer of `GET /usage`, with the largest GPU use first. */
export interface Usage {
  /** ISO 8601; null for everything on record. */
  readonly since: string | null;
  readonly usage: readonly UsageRow[];
  /** Only owners with uploads. */
  readonly uploads: readonly UsageOfUploads[];
}
