import { accessSync, closeSync, constants, lstatSync, readlinkSync } from 'node:fs';
import path from 'node:path';
import { roles, type TokenDocument, type TokenEntry } from '../../access/index.js';
import { quotePath } from '../../contract/index.js';
import { appendLines, errorCode, faultWithoutPath, openLines } from '../../files/index.js';
import type { ServerEvents } from '../events.js';
import type { Report } from '../report.js';
import { SetupError } from '../setup-error.js';

/** One line: what happened, to whom and to what. Never contains a token, nor a name or sentence that could reveal file names. */
export interface AuditEntry {
  readonly event:
    | 'submission'
    | 'upload'
    | 'upload-removal'
    | 'eviction'
    | 'end'
    | 'download'
    | 'kill'
    | 'removal'
    | 'drain'
    | 'refusal'
    | 'token'
    // Takes the place of lines that could not be written.
    | 'lost';
  readonly [fact: string]: unknown;
}

const { W_OK, X_OK } = constants;

function unwritable(file: string, cause: unknown): SetupError {
  return new SetupError(`The audit log ${quotePath(file)} cannot be written: ${faultWithoutPath(cause)}`, {
    cause,
  });
}

/**
 * Checks that a file can be created under this name or, if the name is a link, under the link's target. @throws the system's
 * error if not
 */
function checkPlace(file: string): void {
  const directory = path.dirname(file);
  if (lstatSync(file, { throwIfNoEntry: false })) checkPlace(path.resolve(directory, readlinkSync(file)));
  else accessSync(directory, W_OK | X_OK);
}

/** Checks whether a start could open an audit log, without creating a file. @throws SetupError */
export function lookAtAuditLog(file: string): void {
  try {
    closeSync(openLines(file, false));
  } catch (cause) {
    if (errorCode(cause) !== 'ENOENT') throw unwritable(file, cause);
    try {
      checkPlace(file);
    } catch (why) {
      throw unwritable(file, why);
    }
  }
}

/**
 * A file of JSON lines that is only appended to. A full disk stops nothing: lines that cannot be written are counted, which is
 * reported once, and their number is written when there is space again.
 */
export class AuditLog {
  /** Null once the log is closed, because the descriptor may by then belong to another file. */
  #descriptor: number | null;
  #lost = 0;

  /** @throws SetupError if the file cannot be opened */
  constructor(
    private readonly file: string,
    private readonly report: Report,
  ) {
    try {
      this.#descriptor = openLines(file);
    } catch (cause) {
      throw unwritable(file, cause);
    }
  }

  /** Writes a line. Never throws. */
  write(entry: AuditEntry): void {
    const descriptor = this.#descriptor;
    if (descriptor === null) return;
    // Both at once, because there may be space only for the shorter one.
    const lost: readonly AuditEntry[] = this.#lost === 0 ? [] : [{ event: 'lost', lines: this.#lost }];
    this.#lost = this.#append(descriptor, [...lost, entry]) ? 0 : this.#lost + 1;
  }

  /** Reopens the file by its name, after an admin has renamed the old one. Never throws. */
  reopen(): void {
    try {
      if (this.#descriptor === null) return;
      const next = openLines(this.file);
      closeSync(this.#descriptor);
      this.#descriptor = next;
    } catch (cause) {
      this.report('The audit log could not be reopened; lines still go to the old file', cause);
    }
  }

  close(): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor);
    this.#descriptor = null;
  }

  /** @returns whether the lines were written; if not, none of them was */
  #append(descriptor: number, entries: readonly AuditEntry[]): boolean {
    const time = new Date().toISOString();
    const lines = entries.map((entry) => JSON.stringify({ time, ...entry }));
    try {
      appendLines(descriptor, lines);
      return true;
    } catch (cause) {
      if (this.#lost === 0) {
        this.report(
          'The audit log cannot be written; the service goes on, and the lines that are lost are counted',
          cause,
        );
      }
      return false;
    }
  }
}

/** What happened to a token between two versions of the file. */
function changeOf(before: TokenEntry | undefined, after: TokenEntry | undefined): string | null {
  if (!before) return 'created';
  if (!after) return 'removed';
  if (after.hash === before.hash) {
    return JSON.stringify(after) === JSON.stringify(before) ? null : 'changed';
  }
  return after.hash === null ? 'revoked' : 'rotated';
}

/** A token's permissions as they are logged; all null if there is no such token. */
function allowedBy(entry: TokenEntry | undefined) {
  const { role = null, expires_at = null, revoked_at = null, limits = null, apps = null } = entry ?? {};
  return { role, expires_at, revoked_at, limits, apps };
}

function auditEntries(log: AuditLog, before: readonly TokenEntry[], after: readonly TokenEntry[]): void {
  const names = new Set([...before, ...after].map(({ name }) => name));
  const find = (entries: readonly TokenEntry[], name: string) => entries.find((each) => each.name === name);
  for (const name of names) {
    const [old, entry] = [find(before, name), find(after, name)];
    const change = changeOf(old, entry);
    if (change === null) continue;
    const was = old ? allowedBy(old) : null;
    log.write({ event: 'token', change, token: name, ...allowedBy(entry), was });
  }
}

function auditRoles(log: AuditLog, before: TokenDocument['roles'], after: TokenDocument['roles']): void {
  for (const role of roles) {
    const [old, limits] = [before[role] ?? {}, after[role] ?? {}];
    if (JSON.stringify(limits) === JSON.stringify(old)) continue;
    log.write({ event: 'token', change: 'role', token: null, role, limits, was: { limits: old } });
  }
}

/**
 * Writes a line for each token that was changed, and for each role whose limits were changed, when the server applies the change:
 * what is allowed now, and what was allowed before. The file does not tell who made the change.
 */
function auditTokens(log: AuditLog, before: TokenDocument, after: TokenDocument): void {
  auditRoles(log, before.roles, after.roles);
  auditEntries(log, before.tokens, after.tokens);
}

/**
 * Writes a line for each job that ends, each upload that is completed, everything that is removed to free space, each request
 * that is refused, and each change of a token.
 */
function auditEvents(events: ServerEvents, log: AuditLog): void {
  events.on('ended', ({ id, owner, app, operation, state, isRefused, gpus, seconds, bytes }) =>
    log.write({
      event: 'end',
      owner,
      job_id: id,
      app,
      operation,
      status: state,
      refused: isRefused,
      gpus,
      seconds,
      bytes,
    }),
  );
  events.on('uploaded', ({ owner, bytes }) => log.write({ event: 'upload', owner, bytes }));
  events.on('evicted', ({ owner, id, bytes, requester }) =>
    log.write({ event: 'eviction', owner, job_id: id, bytes, for: requester }),
  );
  events.on('refused', ({ owner, role, from, method, route, status, error }) =>
    log.write({ event: 'refusal', owner, role, from, method, route, status, error }),
  );
  events.on('tokens', ({ before, after }) => auditTokens(log, before, after));
}

/**
 * Opens the audit log of a server, and records events from then on.
 * @param file null for no audit log
 * @throws SetupError if the file cannot be opened
 */
export function openAuditLog(file: string | null, events: ServerEvents, report: Report): AuditLog | null {
  if (file === null) return null;
  const log = new AuditLog(file, report);
  auditEvents(events, log);
  return log;
}
