/** The audit log: a line for everything that somebody did. */
export { type AuditEntry, type AuditLog, lookAtAuditLog, openAuditLog } from './audit-log.js';
