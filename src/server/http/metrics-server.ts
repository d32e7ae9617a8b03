import { createServer, type Server } from 'node:http';
import { internalError, metricsType, routes, ServiceError } from '../../contract/index.js';
import type { Report } from '../report.js';
import { sendError } from './error-answer.js';
import { siteCheck } from './same-origin.js';

/**
 * A server of its own for the metrics and nothing else, without a token. It does not listen yet.
 * @param host the address that it will listen on
 */
export function metricsServer(host: string, read: () => Promise<string>, report: Report): Server {
  const check = siteCheck({
    host,
    name: 'The port of the metrics',
    remedy: `ask for ${routes.metrics.path} at the port of the server, with a token of the role admin`,
  });
  return createServer(async (request, response) => {
    try {
      check(request);
    } catch (cause) {
      sendError(response, cause instanceof ServiceError ? cause : internalError(), {});
      return;
    }
    const { method, url } = request;
    const isAsked = url?.split('?', 1)[0] === routes.metrics.path;
    if (!isAsked || (method !== 'GET' && method !== 'HEAD')) {
      sendError(
        response,
        new ServiceError('notFound', `There is nothing here but GET ${routes.metrics.path}`),
        {},
      );
      return;
    }
    try {
      const text = await read();
      response.writeHead(200, { 'Content-Type': metricsType }).end(text);
    } catch (cause) {
      report('The metrics could not be read', cause);
      sendError(response, internalError(), {});
    }
  });
}
