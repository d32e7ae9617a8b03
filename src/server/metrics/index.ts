/** What Prometheus can ask for. */
export { Metrics } from './metrics.js';
