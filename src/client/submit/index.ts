export { type Clearance, preflight } from './preflight.js';
export { type Sending, type Staged, stage, stageFound } from './staging.js';
export { submit, unacknowledged } from './submit.js';
export { tellSending } from './tell-sending.js';
