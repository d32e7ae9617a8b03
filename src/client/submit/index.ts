export { preflight } from './preflight.js';
export { type Sending, stage } from './staging.js';
export { submit, unacknowledged } from './submit.js';
export { tellSending } from './tell-sending.js';
