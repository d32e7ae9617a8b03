/** Runs jobs on this machine. */
export { halfLife } from './fair-share.js';
export { LocalExecutor, type LocalSettings } from './local-executor.js';
