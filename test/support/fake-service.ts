import { createHash } from 'node:crypto';
import { wireDetails } from '../../src/contract/errors.js';
import { type Handler, json, ScriptedServer } from './scripted-server.js';

export const jobId = '0123456789ab';

export interface Fake {
  readonly apps?: readonly string[];
  readonly token?: string;
  /**
   * Lines of the log; one that ends with a carriage return is a redraw. A function in the list is called and awaited
   * when its turn comes.
   */
  readonly lines?: readonly (string | (() => string | Promise<string>))[];
  /** The terminal marker; null keeps the stream open. */
  readonly marker?: string | null;
  readonly status?: string;
  readonly error?: string | null;
  /** What the result's route answers for a job without a result. */
  readonly resultStatus?: number;
  readonly result?: Buffer;
  /** Additional members of `GET /jobs/{id}`, as our own server has them. */
  readonly view?: Readonly<Record<string, unknown>>;
  /** Called when the job is killed. */
  readonly onKill?: () => void;
  /** Answers requests itself; false means that the usual answer follows. */
  readonly override?: (...args: Parameters<Handler>) => boolean | Promise<boolean>;
}

/**
 * A service with one job, as a client sees it.
 * @param early whether `override` is called before a body is read
 */
export function fakeService(fake: Fake, early = false): Promise<ScriptedServer> {
  const { status = 'done', error = null, marker = '__DONE__' } = fake;
  return ScriptedServer.start(async (request, response, raw) => {
    if (await fake.override?.(request, response, raw)) return;
    const { pathname, searchParams } = new URL(request.url, 'http://any');
    const route = `${request.method} ${pathname}`;
    if (fake.token && request.headers.authorization !== `Bearer ${fake.token}`) {
      const isGiven = request.headers.authorization !== undefined;
      json(response, 401, { detail: isGiven ? wireDetails.invalidToken : wireDetails.missingToken });
    } else if (route === 'GET /health') {
      json(response, 200, { status: 'ok' });
    } else if (route === 'GET /repo_apps_list') {
      json(response, 200, { apps: fake.apps ?? ['tissue'] });
    } else if (route === 'GET /available_devices') {
      json(response, 200, { devices_index: [0, 2], devices_name: ['NVIDIA H200', 'NVIDIA L4'] });
    } else if (route === 'GET /ram' || route === 'GET /vram') {
      json(response, 200, { used_gb: 1.5, total_gb: 64 });
    } else if (/^POST \/apps\//.test(route)) {
      const options = /name="options"\r\n\r\n(.*)\r\n/.exec(request.body.toString('latin1'))?.[1] ?? '{}';
      json(response, 200, {
        job_id: jobId,
        status_url: `/jobs/${jobId}`,
        logs_url: `/jobs/${jobId}/logs`,
        result_url: `/jobs/${jobId}/result`,
        accepted_options: Object.keys(JSON.parse(options)).sort(),
      });
    } else if (route === `GET /jobs`) {
      json(response, 200, { jobs: [{ job_id: jobId, status, error, app: 'tissue', operation: 'infer' }] });
    } else if (route === `GET /jobs/${jobId}`) {
      json(response, 200, { job_id: jobId, status, error, app: 'tissue', operation: 'infer', ...fake.view });
    } else if (route === `GET /jobs/${jobId}/logs`) {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.flushHeaders();
      const since = Number(searchParams.get('since'));
      for (const [index, line] of (fake.lines ?? []).entries()) {
        if (index < since) continue;
        const text = typeof line === 'string' ? line : await line();
        const redraw = text.endsWith('\r') && searchParams.has('redraws') ? 'event: redraw\n' : '';
        response.write(`id: ${index + 1}\n${redraw}data: ${text.replace(/\r$/, '')}\n\n`);
      }
      if (marker !== null) response.end(`data: ${marker}\n\n`);
    } else if (route === `GET /jobs/${jobId}/result`) {
      if (status !== 'done') {
        json(response, fake.resultStatus ?? (status === 'killed' ? 409 : 500), {
          job_id: jobId,
          status,
          error,
        });
        return;
      }
      const body = fake.result ?? Buffer.alloc(0);
      const etag = `"${createHash('sha1').update(body).digest('hex')}"`;
      response.writeHead(200, { 'content-type': 'application/zip', 'content-length': body.length, etag });
      response.end(body);
    } else if (route === `POST /jobs/${jobId}/kill`) {
      fake.onKill?.();
      json(response, 200, { job_id: jobId, status: 'killed', message: 'Kill requested' });
    } else {
      json(response, 404, { detail: pathname.startsWith('/jobs/') ? 'Unknown job_id' : 'Not Found' });
    }
  }, early);
}
