import { EventEmitter } from 'node:events';
import type { TokenDocument } from '../access/index.js';
import type { ErrorCode, Observed } from '../contract/index.js';
import type { Report } from './report.js';

/** The facts that identify a job in an event. */
export interface JobFacts {
  readonly id: string;
  readonly app: string;
  readonly operation: string;
  /** Name of the token that submitted it; null for the token of the environment, or none. */
  readonly owner: string | null;
}

/** Why a job was removed: it expired, somebody removed it, or its result was downloaded and the disk was nearly full. */
export type GoneCause = 'expired' | 'removed' | 'fetched';

export interface EndedJob extends JobFacts {
  readonly state: 'done' | 'error' | 'killed';
  readonly error: string | null;
  /** Whether the app refused the input, in which case the error is the app's own text and may name files. */
  readonly isRefused: boolean;
  /**
   * 128 plus the number of the signal if a signal ended the command; null if the command never ran, or if the code is not known.
   */
  readonly exitCode: number | null;
  /** The version of the app when the command began; null if it is not known, or not yet known. */
  readonly version: string | null;
  readonly gpus: readonly number[];
  /** UUIDs of these GPUs, as far as known. */
  readonly gpuUuids: readonly string[];
  /** 0 for a job on GPUs, and for one that never ran. */
  readonly cpuSlots: number;
  /** When the job was accepted (ISO 8601). */
  readonly acceptedAt: string;
  /** Seconds from then until the job began, or until it ended without having begun. */
  readonly queued: number;
  /** Size in bytes of the submission. */
  readonly received: number;
  /** When the command ended (ISO 8601), or when the job itself did if the command never ran. */
  readonly endedAt: string;
  /** Seconds that the command ran; null if it never did. */
  readonly seconds: number | null;
  /** Peak memory of the job in bytes, and peak memory on any one GPU; null if not known. */
  readonly peakMemory: number | null;
  readonly peakGpuMemory: number | null;
  readonly cpuSeconds: number | null;
  /** Resources of which the job used over a tenth more than its app declares. */
  readonly overuse: readonly (Pick<Observed, 'resource'> & Readonly<Record<'used' | 'declared', number>>)[];
  /** Size in bytes of the result, or of its files if it is packed only when downloaded; null if there is no result. */
  readonly bytes: number | null;
}

/** A request that was answered with an error. */
export interface RefusedRequest {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** The error code, from the table of errors. */
  readonly error: ErrorCode;
  /** The text that the client received, which may name files. */
  readonly detail: string;
  /** Address of the sender. */
  readonly from: string;
  /** Name and role of the token. Both are null if no token was accepted; the environment's token has no name. */
  readonly owner: string | null;
  readonly role: string | null;
  /** The name of the route, from the table of routes; null if no route matched. */
  readonly route: string | null;
}

/** Ids of apps that were added to the server or removed from it. */
export interface ChangedApps {
  readonly added: readonly string[];
  readonly removed: readonly string[];
}

/** The events of a server, by name. */
export interface ServerHappenings {
  accepted: JobFacts & {
    /** Of its submission. */
    readonly bytes: number;
  };
  waiting: JobFacts & {
    /** The reason why the job is waiting, in words. */
    readonly for: string | null;
    readonly position: number | null;
  };
  started: JobFacts & {
    /** Empty for a job on the CPU. */
    readonly gpus: readonly number[];
    /** Seconds since the job was accepted. */
    readonly waited: number;
  };
  ended: EndedJob;
  removed: JobFacts & { readonly cause: GoneCause };
  /** An upload was completed. */
  uploaded: {
    /** Name of the token that sent the upload; null for the environment's token, or none. */
    readonly owner: string | null;
    readonly bytes: number;
  };
  /** Something was removed early, to free disk space. */
  evicted: {
    /** Name of the token that the upload or job belonged to; null for the environment's token, or none. */
    readonly owner: string | null;
    /** Id of the job whose result or output was removed; null for an upload. */
    readonly id: string | null;
    readonly bytes: number;
    /** Name of the token for whose upload or submission space was freed. */
    readonly requester: string | null;
  };
  refused: RefusedRequest;
  apps: ChangedApps;
  /** The server was drained and refuses new jobs, or accepts them again. */
  drained: {
    readonly isDraining: boolean;
    /** Number of jobs that have not ended. */
    readonly active: number;
  };
  /** An admin has drained GPUs, so that new jobs do not get them, or made them available again. */
  gpusDrained: { readonly gpus: readonly number[]; readonly isDrained: boolean };
  /** A fault of the machine that keeps jobs waiting has occurred or is over. */
  fault: {
    /** What is at fault: `sandbox`, `disk`, or a GPU. */
    readonly what: string;
    /** A sentence; null if the fault is over. */
    readonly fault: string | null;
  };
  /** The file of the named tokens was changed, and the server uses the new one. */
  tokens: { readonly before: TokenDocument; readonly after: TokenDocument };
  /** The token file can be used again, after it was reported as unusable. */
  tokensMended: {
    /** Number of tokens, including revoked ones. */
    readonly tokens: number;
  };
}

/**
 * Passes events to the parts of the server that record them, such as the log and the metrics. An error in a listener is reported,
 * and never affects the job or request that the event is about.
 */
export class ServerEvents {
  readonly #emitter = new EventEmitter();

  constructor(private readonly report: Report) {}

  announce<Name extends keyof ServerHappenings>(name: Name, happening: ServerHappenings[Name]): void {
    try {
      this.#emitter.emit(name, happening);
    } catch (cause) {
      this.report(`An event could not be recorded (${name})`, cause);
    }
  }

  on<Name extends keyof ServerHappenings>(
    name: Name,
    listener: (happening: ServerHappenings[Name]) => void,
  ): void {
    this.#emitter.on(name, listener);
  }
}
