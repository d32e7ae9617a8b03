import { request } from 'node:http';
import { linesOf } from '../support/log-lines.mjs';
import { until } from '../support/until.mjs';

/** The form of an infer job of one small volume, as KonfAI's client sends it. */
export function inferForm(values = {}) {
  const form = new FormData();
  for (const [name, value] of Object.entries({ inputs_groups: '1', ...values })) {
    if (value !== null) form.append(name, typeof value === 'string' ? value : JSON.stringify(value));
  }
  form.append('inputs', new Blob(['voxels']), 'scan.mha');
  return form;
}

/** What the engine of `test/konfai/engine` is to do. */
export const doing = (...overrides) =>
  overrides.length === 0 ? {} : { options: { config_overrides: overrides } };

/** Sends a form; the answer, whatever it is. */
export const post = (server, app, form, operation = 'infer', headers = {}) =>
  server.fetch(`/apps/${app}/${operation}`, { method: 'POST', body: form, headers });

/** Submits an infer job and returns its id. */
export async function submit(server, app, values = {}) {
  const response = await post(server, app, inferForm(values));
  if (!response.ok) throw new Error(`${server.side} answered ${response.status}: ${await response.text()}`);
  return (await response.json()).job_id;
}

/** The state of a job; an answer that is none is thrown. */
export async function stateOf(server, id) {
  const response = await server.fetch(`/jobs/${id}`);
  if (!response.ok) throw new Error(`${server.side} answered ${response.status} of job ${id}`);
  return response.json();
}

/** Resolves with the record of a job when it has reached one of these states. */
export const reaches = (server, id, ...states) =>
  until(
    `job ${id} of ${server.side} is ${states.join(' or ')}`,
    async () => {
      const record = await stateOf(server, id);
      return states.includes(record.status) ? record : null;
    },
    120_000,
    30,
  );

/** The lines of a job's log, to the end of the stream or for so many milliseconds. */
export async function logOf(server, id, { where = '/logs', limit = 60_000 } = {}) {
  const abort = AbortSignal.timeout(limit);
  let text = '';
  try {
    const response = await server.fetch(`/jobs/${id}${where}`, { signal: abort });
    if (!response.ok) return [`answered ${response.status}`];
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) text += chunk;
  } catch {
    if (!abort.aborted) return [...linesOf(text), 'broken off'];
  }
  return linesOf(text);
}

/**
 * Announces an upload of 1 GiB and sends none of it.
 * @returns the status of an answer that comes all the same, or 'none' where the server waits for the bytes
 */
export function announce(server, where, headers) {
  return new Promise((resolve, reject) => {
    const sent = request(`${server.url}${where}`, {
      method: 'POST',
      headers: { 'Content-Type': 'multipart/form-data; boundary=x', 'Content-Length': 2 ** 30, ...headers },
    });
    const finish = (value) => {
      clearTimeout(timer);
      sent.destroy();
      resolve(value);
    };
    // Nothing comes from a server that waits: how long is waited is the only way to tell. An answer takes milliseconds.
    const timer = setTimeout(() => finish('none'), 3000);
    sent.once('response', ({ statusCode }) => finish(String(statusCode)));
    sent.once('error', (cause) => {
      clearTimeout(timer);
      reject(cause);
    });
    sent.flushHeaders();
  });
}
