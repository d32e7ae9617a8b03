import { EventEmitter } from 'node:events';
import type { TokenDocument } from '../access/index.js';
import type { ErrorCode, Observed } from '../contract/index.js';
import type { Report } from './report.js';

/** How events identify a job. */
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
  /** Whether the app refused the input: the error is then the app's own text, which may name files. */
  readonly isRefused: boolean;
  /** 128 and the number of the signal if one ended its command; null if it never ran, or that is not known. */
  readonly exitCode: number | null;
  /** The version of its app when its command began; null if it is not known, or not yet. */
  readonly version: string | null;
  readonly gpus: readonly number[];
  /** UUIDs of these GPUs, as far as they are known. */
  readonly gpuUuids: readonly string[];
  /** 0 for a job on GPUs, and for one that never ran. */
  readonly cpuSlots: number;
  /** When it was accepted (ISO 8601). */
  readonly acceptedAt: string;
  /** Seconds from then until it began, or until it ended without having begun. */
  readonly queued: number;
  /** Bytes of its submission. */
  readonly received: number;
  /** When its command ended (ISO 8601), or the job itself if it never ran. */
  readonly endedAt: string;
  /** Seconds that it ran; null if it never did. */
  readonly seconds: number | null;
  /** Bytes of memory, and of any one GPU's, that it had at most; null where that is not known. */
  readonly peakMemory: number | null;
  readonly peakGpuMemory: number | null;
  readonly cpuSeconds: number | null;
  /** What it used over a tenth more of than its app declares. */
  readonly overuse: readonly (Pick<Observed, 'resource'> & Readonly<Record<'used' | 'declared', number>>)[];
  /** Bytes of the result, or of its files if it is packed while it is downloaded; null if there is none. */
  readonly bytes: number | null;
}

/** A request that was answered with an error. */
export interface RefusedRequest {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** The name of the error, from the table of errors. */
  readonly error: ErrorCode;
  /** What the client was told, which may name files. */
  readonly detail: string;
  /** Address of the sender. */
  readonly from: string;
  /** Name and role of the token. Both are null if none was accepted; the token of the environment has no name. */
  readonly owner: string | null;
  readonly role: string | null;
  /** The name of the route, from the table of routes; null if it reached none. */
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
    /** The reason, as a person reads it. */
    readonly for: string | null;
    readonly position: number | null;
  };
  started: JobFacts & {
    /** Empty for a job on the CPU. */
    readonly gpus: readonly number[];
    /** Seconds since it was accepted. */
    readonly waited: number;
  };
  ended: EndedJob;
  removed: JobFacts & { readonly cause: GoneCause };
  /** An upload was completed. */
  uploaded: {
    /** Name of the token that sent it; null for the token of the environment, or none. */
    readonly owner: string | null;
    readonly bytes: number;
  };
  /** Something was removed before its time, to make room on the disk. */
  evicted: {
    /** Name of the token whose upload or job it was; null for the token of the environment, or none. */
    readonly owner: string | null;
    /** The job whose result or output it was; null for an upload. */
    readonly id: string | null;
    readonly bytes: number;
    /** Name of the token for whose upload or submission the room was made. */
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
  /** An admin has taken GPUs out, so that no new job gets them, or put them back. */
  gpusDrained: { readonly gpus: readonly number[]; readonly isDrained: boolean };
  /** A fault of the machine keeps jobs waiting, or is gone. */
  fault: {
    /** What is at fault: `sandbox`, `disk`, or a GPU. */
    readonly what: string;
    /** A sentence; null once it is gone. */
    readonly fault: string | null;
  };
  /** The file of the named tokens was changed, and the server uses the new one. */
  tokens: { readonly before: TokenDocument; readonly after: TokenDocument };
  /** The token file can be used again, after it was reported as unusable. */
  tokensMended: {
    /** How many there are, revoked ones included. */
    readonly tokens: number;
  };
}

/**
 * Passes events to the parts that record them, such as the log and the metrics. An error in a listener is reported and
 * never affects the job or the request that the event is about.
 */
export class ServerEvents {
  readonly #emitter = new EventEmitter();

  constructor(private readonly report: Report) {}

  tell<Name extends keyof ServerHappenings>(name: Name, happening: ServerHappenings[Name]): void {
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
