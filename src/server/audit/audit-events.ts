import { roles, type TokenDocument, type TokenEntry } from '../../access/index.js';
import type { ServerEvents } from '../events.js';
import type { AuditLog } from './audit-log.js';

/** Writes a line for each job that ends, each request that is refused, and each change of a token. */
export function auditEvents(events: ServerEvents, log: AuditLog): void {
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
  events.on('refused', ({ owner, role, from, method, route, status, error }) =>
    log.write({ event: 'refusal', owner, role, from, method, route, status, error }),
  );
  events.on('tokens', ({ before, after }) => auditTokens(log, before, after));
}

/** What became of a token between two states of the file. */
function changeOf(before: TokenEntry | undefined, after: TokenEntry | undefined): string | null {
  if (!before) return 'created';
  if (!after) return 'removed';
  if (after.hash === before.hash) {
    return JSON.stringify(after) === JSON.stringify(before) ? null : 'changed';
  }
  return after.hash === null ? 'revoked' : 'rotated';
}

/** What a token allows, as a line has it; all null for one that is not there. */
function allowedBy(entry: TokenEntry | undefined) {
  const { role = null, expires_at = null, revoked_at = null, limits = null } = entry ?? {};
  return { role, expires_at, revoked_at, limits };
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
 * Writes a line for each token that was changed, and for each role whose limits were, when the server takes the change up:
 * what is allowed now, and what was. The file does not tell who has changed it.
 */
function auditTokens(log: AuditLog, before: TokenDocument, after: TokenDocument): void {
  auditRoles(log, before.roles, after.roles);
  auditEntries(log, before.tokens, after.tokens);
}
