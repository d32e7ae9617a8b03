import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** How many expired jobs are remembered: their ids and times, a line of 40 bytes each. */
const remembered = 10_000;

/** Which jobs have expired, and when: what makes the answer 410 rather than 404, after a restart too. */
export class ExpiredJobs {
  readonly #file: string;
  readonly #times = new Map<string, string>();

  constructor(dataDirectory: string) {
    this.#file = path.join(dataDirectory, 'expired');
    if (!existsSync(this.#file)) return;
    const lines = readFileSync(this.#file, 'utf8')
      .split('\n')
      .filter((line) => /^[0-9a-f]{12} \S+$/.test(line));
    const kept = lines.slice(-remembered);
    for (const line of kept) this.#times.set(line.slice(0, 12), line.slice(13));
    if (kept.length < lines.length) writeFileSync(this.#file, `${kept.join('\n')}\n`, { mode: 0o600 });
  }

  add(id: string): void {
    const time = new Date().toISOString();
    this.#times.set(id, time);
    appendFileSync(this.#file, `${id} ${time}\n`, { mode: 0o600 });
    const oldest = this.#times.keys().next().value;
    if (this.#times.size > remembered && oldest !== undefined) this.#times.delete(oldest);
  }

  /** When the job expired, ISO 8601; undefined for a job that is not known to have. */
  when(id: string): string | undefined {
    return this.#times.get(id);
  }
}
