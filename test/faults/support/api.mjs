import { setTimeout as delay } from 'node:timers/promises';
import { formOf } from '../../support/form.mjs';
import { linesOf } from '../../support/log-lines.mjs';
import { patience, until } from './until.mjs';

/**
 * One request; the answer is read whole. A connection that breaks throws. The tests' own (`test/support/api.ts`) judges
 * an answer with vitest's `expect`, which the harness does not have.
 */
export async function request(server, path, { method = 'GET', headers = {}, body, limit = patience } = {}) {
  const authorization = server.token === null ? {} : { authorization: `Bearer ${server.token}` };
  const response = await fetch(server.url + path, {
    method,
    headers: { ...authorization, ...headers },
    ...(body === undefined ? {} : { body }),
    signal: AbortSignal.timeout(limit),
  });
  const bytes = Buffer.from(await response.arrayBuffer());
  return { status: response.status, headers: response.headers, bytes, text: bytes.toString() };
}

export async function json(server, path, options) {
  const answer = await request(server, path, options);
  if (answer.status !== 200)
    throw new Error(`${path} answered ${answer.status}: ${answer.text.slice(0, 300)}`);
  return JSON.parse(answer.text);
}

/** The settings that the harness's apps take: `--set NAME=VALUE`. */
export const steps = (values) =>
  JSON.stringify({ config_overrides: Object.entries(values).map(([name, value]) => `${name}=${value}`) });

/** Sends a submission and returns the answer, whatever it is. */
export const trySubmit = (server, app, operation, form, headers = {}) =>
  request(server, `/apps/${app}/${operation}`, { method: 'POST', headers, body: formOf(form) });

/** Submits a form that must be accepted; returns the job's id. */
export async function submit(server, app, operation, form, headers = {}) {
  const answer = await trySubmit(server, app, operation, form, headers);
  if (answer.status !== 200) throw new Error(`Refused with ${answer.status}: ${answer.text.slice(0, 300)}`);
  return JSON.parse(answer.text).job_id;
}

/** The header of every request about uploads. */
export const tus = { 'Tus-Resumable': '1.0.0' };
const bytesOfUpload = { ...tus, 'Content-Type': 'application/offset+octet-stream' };

/** Begins an upload, or asks how much of it is there. */
export const beginUpload = (server, name, length, body) =>
  request(server, '/uploads', {
    method: 'POST',
    headers: {
      ...(body === undefined ? tus : bytesOfUpload),
      'Upload-Length': String(length),
      'Upload-Metadata': `sha256 ${Buffer.from(name).toString('base64')}`,
    },
    ...(body === undefined ? {} : { body }),
  });

export const appendUpload = (server, name, offset, body) =>
  request(server, `/uploads/${name}`, {
    method: 'PATCH',
    headers: { ...bytesOfUpload, 'Upload-Offset': String(offset) },
    body,
  });

/** Maximum number of jobs in an answer. */
const page = 1000;

/** All jobs. */
export async function listJobs(server) {
  const { jobs } = await json(server, '/jobs');
  while (jobs.length > 0 && jobs.length % page === 0) {
    const more = (await json(server, `/jobs?before=${jobs.at(-1).job_id}`)).jobs;
    if (more.length === 0) break;
    jobs.push(...more);
  }
  return jobs;
}
export const job = (server, id) => json(server, `/jobs/${id}`);
export const kill = (server, id) => json(server, `/jobs/${id}/kill`, { method: 'POST' });
export const isFinal = ({ status }) => ['done', 'error', 'killed'].includes(status);

/** Waits for a job's end. */
export const ended = (server, id, limit = patience) =>
  until(
    `job ${id} ends`,
    async () => {
      const view = await job(server, id);
      return isFinal(view) ? view : null;
    },
    limit,
  );

/** The complete log of a job that has ended, with its marker. */
export async function logOf(server, id) {
  for (;;) {
    const answer = await request(server, `/jobs/${id}/logs`);
    // The server may still count a stream that was cut a moment ago.
    if (answer.status === 200) return linesOf(answer.text);
    if (answer.status !== 429) throw new Error(`The log of ${id} answered ${answer.status}: ${answer.text}`);
    await delay(50);
  }
}
