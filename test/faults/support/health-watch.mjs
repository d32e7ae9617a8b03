import { setTimeout as delay } from 'node:timers/promises';

/** Asks `/health` repeatedly and records how long each answer took, which load and faults must not affect. */
export class HealthWatch {
  #times = [];
  #ending = new AbortController();
  #loop;

  constructor(context, server) {
    this.#loop = this.#watch(context, server);
  }

  /** Ends the watch and returns the times. */
  async end() {
    this.#ending.abort();
    await this.#loop;
    return this.#times;
  }

  async #watch(context, server) {
    while (!this.#ending.signal.aborted && server.death === null) {
      const before = performance.now();
      try {
        const headers = server.token === null ? {} : { authorization: `Bearer ${server.token}` };
        const response = await fetch(`${server.url}/health`, {
          headers,
          signal: AbortSignal.timeout(30_000),
        });
        const body = await response.text();
        if (body !== '{"status":"ok"}') context.violation(`/health answered ${response.status}: ${body}`);
        this.#times.push(performance.now() - before);
      } catch (cause) {
        if (!this.#ending.signal.aborted) context.violation(`/health gave no answer: ${cause.message}`);
      }
      await delay(25);
    }
    const sorted = this.#times.toSorted((a, b) => a - b);
    context.count('/health asked', sorted.length);
    context.highest(
      `p99 of /health (${context.name})`,
      sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0,
      'ms',
    );
  }
}
