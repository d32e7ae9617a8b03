import type { TokenEntry } from '../../access/token-file.js';
import type { ServerEvents } from '../events.js';
import type { AuditLog } from './audit-log.js';

/** Writes a line for each job that ends, and for each request that is refused. */
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

/** Writes a line for each token that was changed, when the server takes the change up. */
export function auditTokens(
  log: AuditLog,
  before: readonly TokenEntry[],
  after: readonly TokenEntry[],
): void {
  const names = new Set([...before, ...after].map(({ name }) => name));
  const find = (entries: readonly TokenEntry[], name: string) => entries.find((each) => each.name === name);
  for (const name of names) {
    const [old, entry] = [find(before, name), find(after, name)];
    const change = changeOf(old, entry);
    if (change === null) continue;
    const { role = null, expires_at = null } = entry ?? {};
    log.write({ event: 'token', change, token: name, role, expires_at });
  }
}
