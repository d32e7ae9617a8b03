export { type PlannedFile, planSending } from './dry-run.js';
export { checkOperation, preflight, type ServerTerms } from './preflight.js';
export { type Case, type SentFiles, type Staged, sentFilesOf, stage } from './staging.js';
export { submit, unacknowledged } from './submit.js';
