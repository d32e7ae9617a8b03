/** What the jobs of an owner on an app have used, of those that have ended, and what they keep. */
export interface UsageRow {
  /** Name of the token; null for the token of the environment, or none. */
  readonly owner: string | null;
  readonly app: string;
  readonly jobs: number;
  /** Hours on a GPU, times the number of GPUs. */
  readonly gpu_hours: number;
  /** Bytes of the uploads. */
  readonly bytes_in: number;
  /** Bytes of the results: of their archives, and of the files of those that are packed while they are downloaded. */
  readonly bytes_out: number;
  /** Bytes that its jobs keep on the disk of the server now, those that have not ended among them. An older server does not tell. */
  readonly bytes_kept?: number | undefined;
  /** When the last of them ended (ISO 8601); now, while one has not. */
  readonly last_used?: string | undefined;
}

/** What `GET /usage` answers with: the largest use of GPUs first. */
export interface Usage {
  /** ISO 8601; null for all that is noted. */
  readonly since: string | null;
  readonly usage: readonly UsageRow[];
}
