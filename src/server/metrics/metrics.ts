import { Registry } from 'prom-client';
import { countJobs } from './job-metrics.js';
import { showServer } from './server-metrics.js';
import type { MetricSources } from './sources.js';

/** The metrics of one server in Prometheus' text format, counted from now on. */
export class Metrics {
  readonly #registry = new Registry();

  constructor(sources: MetricSources) {
    countJobs(sources.events, this.#registry);
    showServer(sources, this.#registry);
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }
}
