import { expect } from 'vitest';
import type { JobEnvelope, JobView, KillReply } from '../../src/contract/job.js';
import { type FormValues, formOf } from './form.mjs';
import { LogFollower } from './log-stream.js';
import { until } from './until.mjs';
import { unzip } from './unzip.mjs';

/** What the probe recorded of how it was started. */
export interface ProbeRecord {
  readonly argv: readonly string[];
  readonly program: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** By flag, a list each time it was given, of `[path, contents]`. */
  readonly files: Readonly<Record<string, readonly (readonly [string, unknown])[][]>>;
}

export interface SubmitOptions {
  readonly app?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A job that has ended. */
export interface EndedJob {
  readonly id: string;
  /** Text of its log stream. */
  readonly log: string;
  readonly view: JobView;
}

/** The service as HTTP, without any of the client's code. */
export class Api {
  constructor(
    private readonly server: { readonly url: string; readonly token: string | null },
    private readonly app: string,
  ) {}

  fetch(path: string, { headers, ...init }: RequestInit = {}): Promise<Response> {
    const all = new Headers(headers);
    if (this.server.token !== null) all.set('Authorization', `Bearer ${this.server.token}`);
    return fetch(this.server.url + path, { ...init, headers: all });
  }

  async json<T = Record<string, unknown>>(path: string, init?: RequestInit): Promise<T> {
    return (await (await this.fetch(path, init)).json()) as T;
  }

  submit(operation: string, form: FormValues, { app = this.app, headers }: SubmitOptions = {}) {
    const body = formOf(form);
    return this.fetch(`/apps/${encodeURIComponent(app)}/${operation}`, {
      method: 'POST',
      body,
      ...(headers ? { headers } : {}),
    });
  }

  /** Submits a form that must be accepted. */
  async accepted(operation: string, form: FormValues, options?: SubmitOptions): Promise<JobEnvelope> {
    const response = await this.submit(operation, form, options);
    const body = await response.text();
    expect(response.status, body).toBe(200);
    return JSON.parse(body) as JobEnvelope;
  }

  /** Submits a form that must be refused; returns the status and the sentence. */
  async refused(operation: string, form: FormValues, options?: SubmitOptions): Promise<[number, string]> {
    return refusal(await this.submit(operation, form, options));
  }

  /** Submits a job and waits for its end. */
  async run(operation: string, form: FormValues, options?: SubmitOptions): Promise<EndedJob> {
    const { job_id: id } = await this.accepted(operation, form, options);
    return this.ended(id);
  }

  /** Waits for a job's end, by its log. */
  async ended(id: string): Promise<EndedJob> {
    const log = await this.log(id);
    return { id, log, view: await this.job(id) };
  }

  job(id: string): Promise<JobView> {
    return this.json<JobView>(`/jobs/${id}`);
  }

  /** Waits until the job is in that state. */
  reaches(id: string, status: JobView['status']): Promise<JobView> {
    return until(`job ${id} is ${status}`, async () => {
      const view = await this.job(id);
      return view.status === status ? view : null;
    });
  }

  /** The whole text of a log stream. */
  async log(id: string, query = '', headers: Record<string, string> = {}): Promise<string> {
    return (await this.fetch(`/jobs/${id}/logs${query}`, { headers })).text();
  }

  /** One attempt to open a log stream. */
  async tryFollow(id: string, query = ''): Promise<LogFollower> {
    const abort = new AbortController();
    const response = await this.fetch(`/jobs/${id}/logs${query}`, { signal: abort.signal });
    return new LogFollower(response, abort);
  }

  /** Opens a log stream, once the server has noticed that the job's last one is closed. */
  async follow(id: string, query = ''): Promise<LogFollower> {
    return until(`the log of ${id} opens`, async () => {
      const log = await this.tryFollow(id, query);
      if (log.response.status === 429) return null;
      expect(log.response.status).toBe(200);
      return log;
    });
  }

  /** Submits a job and waits for a line of its log, before the test continues. */
  async running(operation: string, form: FormValues, line: string | RegExp = /^probe /): Promise<string> {
    const { job_id: id } = await this.accepted(operation, form);
    await using log = await this.follow(id);
    await log.until(line);
    return id;
  }

  kill(id: string): Promise<KillReply> {
    return this.json<KillReply>(`/jobs/${id}/kill`, { method: 'POST' });
  }

  /** The files of a result. */
  async result(id: string): Promise<Map<string, Buffer>> {
    const response = await this.fetch(`/jobs/${id}/result`);
    expect(response.status).toBe(200);
    return unzip(Buffer.from(await response.arrayBuffer()));
  }

  /** What the probe recorded, from the result. */
  async recorded(id: string): Promise<ProbeRecord> {
    return JSON.parse(String((await this.result(id)).get('probe.json'))) as ProbeRecord;
  }

  /** Runs the probe to its end and returns what it recorded. */
  async probe(operation: string, form: FormValues): Promise<ProbeRecord> {
    const { id, log } = await this.run(operation, form);
    expect(log).toContain('data: __DONE__\n\n');
    return this.recorded(id);
  }
}

/** Status and sentence of an error; checks that its body has the shape of all errors. */
export async function refusal(response: Response): Promise<[status: number, detail: string]> {
  expect(response.headers.get('content-type')).toMatch(/^application\/json/);
  const body = (await response.json()) as { detail: string };
  expect(Object.keys(body)).toEqual(['detail']);
  return [response.status, body.detail];
}
