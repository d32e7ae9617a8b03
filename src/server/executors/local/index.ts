/** Runs jobs on this machine. */
export { LocalExecutor } from './local-executor.js';
export { halfLife } from './shares.js';
