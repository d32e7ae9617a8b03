/** What requests have in common: who sends them, the answer to an error, and the connections that they come on. */
export { auditRequests } from './audit-requests.js';
export { principalOf, requireAdmin, requireToken, senderOf } from './auth.js';
export { type AddressSet, fromClient, proxyList } from './client-address.js';
export { goneSignal, whenGone } from './client-gone.js';
export { sendError } from './error-answer.js';
export { handleErrors } from './error-handler.js';
export { HttpService } from './http-service.js';
export { checkPorts, listen } from './listen.js';
export { captured } from './path-parameters.js';
export { refuseOtherSites } from './same-origin.js';
export { Traffic } from './traffic.js';
export { UncaughtErrors, withCurrentRequest } from './uncaught-errors.js';
