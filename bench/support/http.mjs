import { Agent, request } from 'node:http';
import { fieldPart, filePart, multipart, multipartType } from '../../test/support/multipart.mjs';

const agent = new Agent({ keepAlive: true });

/** Sends one request; resolves with the answer as a stream. */
export function send(url, { method = 'GET', headers = {}, body = null, ...options } = {}) {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, agent, ...options }, resolve);
    sent.once('error', reject);
    sent.end(body);
  });
}

/** Asks a server something that it answers with JSON. */
export const ask = (server, path) => getJson(`${server.url}${path}`);

async function text(response) {
  const pieces = [];
  for await (const piece of response) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

/** @throws for every status but 2xx */
async function getJson(url, options) {
  const response = await send(url, options);
  const body = await text(response);
  if (response.statusCode >= 300) throw new Error(`${url} answered ${response.statusCode}: ${body}`);
  return JSON.parse(body);
}

/**
 * Submits a job with one small file.
 * @param fields by default it asks for the CPU, so that it runs alike on machines with and without a GPU
 */
export function submit(server, app, content = Buffer.alloc(1024, 'x'), fields = { cpu: '1' }) {
  const parts = Object.entries(fields).map(([name, value]) => fieldPart(name, value));
  const body = multipart([...parts, filePart('inputs', 'input.bin', content)]);
  return getJson(server.submitUrl(app), {
    method: 'POST',
    headers: {
      'Content-Type': multipartType,
      'Content-Length': body.length,
    },
    body,
  });
}

/** The lines of a job's log as they come, terminal marker included. For logs that are not long. */
export async function* logLines(server, id) {
  const response = await send(`${server.url}/jobs/${id}/logs`);
  response.setEncoding('utf8');
  let rest = '';
  for await (const piece of response) {
    const events = (rest + piece).split('\n\n');
    rest = events.pop();
    for (const event of events) if (event.startsWith('data: ')) yield event.slice(6);
  }
}

/** Resolves with the lines of a job's log when the job has ended well. */
export async function logToEnd(server, id) {
  const lines = [];
  for await (const line of logLines(server, id)) lines.push(line);
  if (lines.at(-1) !== '__DONE__') throw new Error(`Job ${id} ended with: ${lines.at(-1)}`);
  return lines;
}
