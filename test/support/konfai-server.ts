import type { ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { formOf, type Handler, json, type Received, ScriptedServer } from './scripted-server.js';

/** The id of its first job. */
export const konfaiJobId = 'abcdefabcdef';

/** A job of KonfAI's server, and how the server treats it. Further jobs are like the first. */
export interface KonfaiFake {
  readonly state?: 'running' | 'done' | 'error' | 'killed';
  readonly error?: string | null;
  /** Whether the app refused the input: 422 instead of 500. */
  readonly isRefused?: boolean;
  /**
   * What is in the job's queue of lines, the end's markers among them. A reader takes lines away: the next one gets what is
   * left.
   */
  readonly queue?: string[];
  readonly result?: Buffer;
  /** Whether the time for which the result is kept is over. */
  readonly isExpired?: boolean;
  /** Whether another program reads the log: a second stream is cut behind its head. */
  readonly isRead?: boolean;
  /** The number of lines after which the server is started again, and has forgotten the job. */
  readonly forgetsAfter?: number;
  /** Whether the first stream is cut at that point, as by a network fault. */
  readonly cutsAfter?: number;
  /** Whether the first request for the state of the job fails. */
  readonly failsOnce?: boolean;
  /** Whether the connection breaks when the first submission is complete, before its answer. */
  readonly losesAnswer?: boolean;
  /** Milliseconds of silence after which the stream of an ended job is closed; theirs waits 15 s. */
  readonly heartbeat?: number;
}

/** Starlette's answers for an unknown path, and for a method that a path does not support. */
const noRoute = { detail: 'Not Found' };
const noMethod = { detail: 'Method Not Allowed' };

/** The names of one group's files, as the server saves them. @throws for what theirs refuses */
function saved(names: readonly string[]): string[] {
  const taken: string[] = [];
  for (const name of names) {
    const plain = name.split('/').at(-1) ?? '';
    const directory = /^(.*)\.konfaidir\.zip$/.exec(plain)?.[1];
    if (directory !== undefined && taken.includes(directory)) {
      throw new Error(`Directory-volume name collides with an existing upload: ${name}`);
    }
    taken.push(directory ?? plain);
  }
  return taken;
}

/**
 * KonfAI's server (konfai-apps 1.8.7) as far as a client can tell: its routes and no others, its answers, and its quirks. Its
 * log has no line numbers and no replay: it is a queue, which its readers empty.
 */
export async function konfaiServer(fake: KonfaiFake = {}) {
  const { result = Buffer.alloc(0), heartbeat = 100 } = fake;
  const newJob = () => ({
    state: fake.state ?? 'done',
    error: fake.error ?? null,
    queue: [...(fake.queue ?? ['__DONE__'])],
  });
  type Job = ReturnType<typeof newJob>;
  const jobs = new Map([[konfaiJobId, newJob()]]);
  const inputs: string[][] = [];
  let submissions = 0;
  let isForgotten = false;
  let streams = 0;
  let hasFailed = false;

  async function streamLog(id: string, job: Job, response: ServerResponse): Promise<void> {
    streams += 1;
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' }).flushHeaders();
    // The refusal comes when the answer has begun: all that a client sees is that the connection is cut.
    if (fake.isRead) return void response.destroy();
    const send = (line: string) => response.write(`data: ${line}\n\n`);
    send(`[KonfAI-Apps] Remote job ${id} log stream connected`);
    for (let sent = 0; ; sent += 1) {
      const isCut = sent === fake.cutsAfter && streams === 1;
      if (sent === fake.forgetsAfter) isForgotten = true;
      // What was sent arrives, but the stream does not end.
      if (isCut || isForgotten) return void response.socket?.end();
      const line = job.queue.shift();
      if (line === undefined) break;
      send(line.trim());
      if (line === '__DONE__' || line.startsWith('__ERROR__')) return void response.end();
    }
    for (;;) {
      await delay(heartbeat);
      if (response.destroyed) return;
      response.write(': keepalive\n\n');
      if (['done', 'error', 'killed'].includes(job.state)) return void response.end();
    }
  }

  async function submit(request: Received, response: ServerResponse): Promise<void> {
    const form = await formOf(request);
    try {
      const names = form.getAll('inputs').map((each) => (each as File).name);
      let start = 0;
      for (const size of String(form.get('inputs_groups')).split(',').map(Number)) {
        inputs.push(saved(names.slice(start, start + size)));
        start += size;
      }
    } catch (cause) {
      return json(response, 400, { detail: (cause as Error).message });
    }
    const id = (BigInt(`0x${konfaiJobId}`) + BigInt(submissions)).toString(16);
    submissions += 1;
    if (!jobs.has(id)) jobs.set(id, newJob());
    if (fake.losesAnswer && submissions === 1) return void response.destroy();
    const at = `/jobs/${id}`;
    const options = Object.keys(JSON.parse(String(form.get('options') ?? '{}')));
    json(response, 200, {
      job_id: id,
      status_url: at,
      logs_url: `${at}/logs`,
      result_url: `${at}/result`,
      accepted_options: options.sort(),
    });
  }

  function answerResult(id: string, { state, error }: Job, response: ServerResponse): void {
    const body = { job_id: id, status: state };
    if (state === 'error') {
      json(response, fake.isRefused ? 422 : 500, { ...body, error });
    } else if (state !== 'done') {
      // Also for a job that was killed and will never have a result.
      json(response, 202, body);
    } else if (fake.isExpired) {
      json(response, 410, { detail: 'Result retention expired' });
    } else {
      response.writeHead(200, { 'content-type': 'application/zip', 'content-length': result.length });
      response.end(result);
    }
  }

  const handler: Handler = async (request, response) => {
    const { pathname } = new URL(request.url, 'http://any');
    const route = `${request.method} ${pathname}`;
    const [, id, rest = ''] = /^\/jobs\/([^/]+)(\/.*)?$/.exec(pathname) ?? [];
    if (route === 'GET /health') return json(response, 200, { status: 'ok' });
    if (route === 'GET /repo_apps_list') return json(response, 200, { apps: ['tissue'] });
    if (route === 'GET /available_devices') {
      return json(response, 200, { devices_index: [], devices_name: [] });
    }
    if (pathname === '/repo_apps/tissue') return json(response, 200, { app: 'tissue', available: false });
    if (/^POST \/apps\/tissue\/infer$/.test(route)) return submit(request, response);
    if (id === undefined || !['', '/logs', '/result', '/kill'].includes(rest)) {
      return json(response, 404, noRoute);
    }
    if (request.method !== (rest === '/kill' ? 'POST' : 'GET')) {
      return json(response, 405, noMethod, { allow: rest === '/kill' ? 'POST' : 'GET' });
    }
    const job = jobs.get(id);
    if (isForgotten || !job) return json(response, 404, { detail: 'Unknown job_id' });
    if (rest === '/logs') return streamLog(id, job, response);
    if (rest === '/result') return answerResult(id, job, response);
    if (rest === '/kill') {
      if (job.state === 'running') Object.assign(job, { state: 'killed', error: 'Killed by user' });
      return json(response, 200, { job_id: id, status: job.state, message: 'Kill requested' });
    }
    if (fake.failsOnce && !hasFailed) {
      hasFailed = true;
      return void response.destroy();
    }
    json(response, 200, { job_id: id, status: job.state, error: job.error });
  };
  const server = await ScriptedServer.start(handler);
  return {
    url: server.url,
    /** What was uploaded: the names of each group, as the server saves them. */
    inputs,
    received: server.received,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}
