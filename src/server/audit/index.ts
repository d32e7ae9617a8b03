/** The audit log: a line for each thing that somebody did. */
export { type AuditEntry, type AuditLog, lookAtAuditLog, openAuditLog } from './audit-log.js';
