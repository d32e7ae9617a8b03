/** The audit log: a line for each thing that somebody did. */
export { auditEvents } from './audit-events.js';
export { type AuditEntry, AuditLog, lookAtAuditLog } from './audit-log.js';
