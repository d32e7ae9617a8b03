import { createServer, type Server } from 'node:http';
import { mediaTypes, metricsType } from '../../contract/http.js';
import { routes } from '../../contract/routes.js';
import type { Report } from '../report.js';

/** A server of its own for the metrics and nothing else, without a token. It does not listen yet. */
export function metricsServer(read: () => Promise<string>, report: Report): Server {
  return createServer(async ({ method, url }, response) => {
    const isAsked = url?.split('?', 1)[0] === routes.metrics.path;
    if (!isAsked || (method !== 'GET' && method !== 'HEAD')) {
      const detail = `There is nothing here but GET ${routes.metrics.path}`;
      response.writeHead(404, { 'Content-Type': mediaTypes.json }).end(JSON.stringify({ detail }));
      return;
    }
    try {
      const text = await read();
      response.writeHead(200, { 'Content-Type': metricsType }).end(text);
    } catch (cause) {
      report('The metrics could not be read', cause);
      response.writeHead(500).end();
    }
  });
}
