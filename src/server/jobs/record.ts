import type { FieldValues } from '../../contract/fields.js';
import type { JobState } from '../../contract/job.js';
import type { OperationName } from '../../contract/operations.js';
import type { DeviceRequest } from './scheduler.js';

/** Files of a job by field, one list of absolute paths a group. An archive is one group of one directory. */
export type JobFiles = Readonly<Record<string, readonly (readonly string[])[]>>;

/** What was asked for, whole: a job can be run from this alone. */
export interface JobRequest {
  readonly app: string;
  readonly operation: OperationName;
  readonly values: FieldValues;
  readonly files: JobFiles;
  readonly device: DeviceRequest;
  readonly acceptedOptions: readonly string[];
  readonly idempotencyKey: string | null;
}

/** `job.json`: the request and every transition. Times are ISO 8601. */
export interface JobRecord {
  readonly id: string;
  readonly request: JobRequest;
  readonly state: JobState;
  readonly error: string | null;
  readonly createdAt: string;
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
  readonly expiresAt: string | null;
  readonly gpus: readonly number[];
  readonly cpuSlots: number;
  /** Somebody asked for its end; whatever its command says then, it was killed. */
  readonly killRequested: boolean;
}
