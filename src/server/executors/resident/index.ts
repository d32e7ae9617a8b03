/** Apps that stay loaded between the jobs of an executor. */
export { type Place, Residency, type ResidencySettings } from './residency.js';
