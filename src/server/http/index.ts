/** What all requests share: the identification of senders, error answers, and connections. */
export { auditRequests } from './audit-requests.js';
export { limitRequests, principalOf, requireAdmin, requireToken, senderOf } from './auth.js';
export { type AddressSet, fromClient, isOwnProxy, proxyList } from './client-address.js';
export { goneSignal, whenGone } from './client-gone.js';
export { handleErrors, sendError } from './errors.js';
export { maxConnections } from './http-server.js';
export { checkPorts, HttpService, listen, Traffic } from './http-service.js';
export { captured, isAskedFor, queryText } from './parameters.js';
export { askForBody, checkCodings, contentLength, wholeRequest } from './request-body.js';
export { refuseOtherSites } from './same-origin.js';
export { surviveUncaughtErrors, withCurrentRequest } from './uncaught-errors.js';
