import type { JobState } from '../../contract/job.js';
import type { ServerEvents } from '../events.js';

/** Bytes through all connections since the start. */
export interface Transferred {
  readonly received: number;
  readonly sent: number;
}

/** A job, as far as it counts. */
export interface CountedJob {
  readonly state: JobState;
  /** GPUs that it has. */
  readonly gpus: readonly number[];
}

/** Where the metrics of a server come from. */
export interface MetricSources {
  readonly events: ServerEvents;
  /** All jobs that the server keeps. */
  readonly jobs: () => readonly CountedJob[];
  /** Ids of the GPUs; null while they are not known. */
  readonly gpus: () => readonly number[] | null;
  readonly isDraining: () => boolean;
  readonly openStreams: () => number;
  readonly transferred: () => Transferred;
  readonly dataDirectory: string;
}
