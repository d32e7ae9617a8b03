/** What an owner's jobs on one app have used, counting jobs that have ended, and what they keep. */
export interface UsageRow {
  /** Name of the token; null for the token of the environment, or none. */
  readonly owner: string | null;
  readonly app: string;
  readonly jobs: number;
  /** Hours on a GPU, times the number of GPUs. */
  readonly gpu_hours: number;
  /** Hours of CPU time. */
  readonly cpu_hours: number;
  /** Bytes of the uploads. */
  readonly bytes_in: number;
  /** Bytes of the results: of their archives, or of the files of results that are packed during the download. */
  readonly bytes_out: number;
  /** Bytes that its jobs, including active ones, keep on the server's disk now. */
  readonly bytes_kept: number;
  /** When the last of them ended (ISO 8601); now, while one has not. */
  readonly last_used: string;
}

/** What the uploads of an owner keep, beside their jobs. */
export interface UsageOfUploads {
  readonly owner: string | null;
  /** How many there are. */
  readonly uploads: number;
  /** Bytes that they keep on the server's disk now. */
  readonly bytes_kept: number;
}

/** The answer of `GET /usage`, with the largest GPU use first. */
export interface Usage {
  /** ISO 8601; null for everything on record. */
  readonly since: string | null;
  readonly usage: readonly UsageRow[];
  /** Only owners that have some. */
  readonly uploads: readonly UsageOfUploads[];
}
