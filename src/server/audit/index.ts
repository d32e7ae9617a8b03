/** The audit log: one line for each action of a user or an admin. */
export { type AuditEntry, type AuditLog, lookAtAuditLog, openAuditLog } from './audit-log.js';
