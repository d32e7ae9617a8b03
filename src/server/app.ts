import Koa from 'koa';
import type { Access } from './access/index.js';
import type { AuditLog } from './audit/index.js';
import type { ServerEvents } from './events.js';
import {
  type AddressSet,
  auditRequests,
  fromClient,
  handleErrors,
  limitRequests,
  maxConnections,
  refuseOtherSites,
  requireToken,
  withCurrentRequest,
} from './http/index.js';
import { createRouter, type RouteDeps } from './routes/index.js';

/** The dependencies of the HTTP service. */
export interface AppDeps extends RouteDeps {
  /** Who may use the server. */
  readonly access: Access;
  /** The address that the server listens on, which determines the hosts that are accepted if no token is required. */
  readonly host: string;
  /** The proxies that are trusted to report a client's address. */
  readonly trustedProxies: AddressSet;
  /** The secret that such a proxy sends with each request; null if none was set. */
  readonly proxySecret: string | null;
  /** Null without an audit log. */
  readonly audit: AuditLog | null;
  /** Receives an event for each refused request. */
  readonly events: ServerEvents;
}

/** The service as a Koa application, which does not listen by itself. */
export function createApp(deps: AppDeps): Koa {
  const app = new Koa();
  // A client that disconnects in the middle of an answer is not a server error.
  app.on('error', (cause: NodeJS.ErrnoException) => {
    const left = ['ECONNRESET', 'EPIPE', 'ERR_STREAM_PREMATURE_CLOSE', 'ERR_STREAM_DESTROYED'];
    // Nor is a client that does not speak HTTP.
    if (!left.includes(cause.code ?? '') && !cause.code?.startsWith('HPE_'))
      deps.report('An answer failed', cause);
  });
  const router = createRouter(deps);
  app.use(withCurrentRequest);
  app.use(fromClient(deps.trustedProxies, deps.proxySecret));
  if (deps.audit) app.use(auditRequests(deps.audit));
  app.use(handleErrors(deps.report, deps.events));
  app.use(refuseOtherSites(deps.access.isOpen, deps.host));
  app.use(requireToken(deps.access));
  app.use(limitRequests(Math.ceil(maxConnections() / 2)));
  app.use(router.routes());
  app.use(router.allowedMethods());
  return app;
}
