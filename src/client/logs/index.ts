export { followSentJob, followToEnd } from './follow-to-end.js';
export { FollowedLog, keepLog } from './keep-log.js';
