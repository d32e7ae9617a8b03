/** The metrics for Prometheus. */
export { Metrics } from './metrics.js';
