/** Apps that stay loaded between the jobs of an executor. */
export { type Assignment, Residency, type ResidencySettings } from './residency.js';
