/** Apps that stay loaded between the jobs of an executor. */
export type { JobFrame } from './worker-order.js';
export { type Assignment, Workers, type WorkersSettings } from './workers.js';
