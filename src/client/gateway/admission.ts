import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { authScheme, quoteName, ServiceError, tus } from '../../contract/index.js';
import { hasBody } from './forward.js';

/** The names by which programs on this machine reach the gateway, as in the `Host` header. */
const ownNames = ['127.0.0.1', 'localhost', '[::1]'];

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/** Whether a path leads out of the prefix of the server's address, so that the token would be sent to another service. */
const leavesPrefix = (path: string): boolean =>
  /(^|[/\\])\.\.([/\\]|$)/.test(
    path.replaceAll(/%2f/gi, '/').replaceAll(/%5c/gi, '\\').replaceAll(/%2e/gi, '.'),
  );

/**
 * Decides who may use the gateway: programs on this machine that know its secret. Other users of the machine can reach its port,
 * and so can every web page in a browser on it.
 */
export class Admission {
  readonly #secret: Buffer;

  /** @param passesFiles false if everything that is sent must be de-identified, which a gateway cannot do */
  constructor(
    secret: string,
    private readonly passesFiles = true,
  ) {
    this.#secret = digest(secret);
  }

  /** @throws ServiceError for a request that is not forwarded */
  check(request: IncomingMessage): void {
    const { headers, headersDistinct, url = '', socket } = request;
    const own = ownNames.map((name) => `${name}:${socket.localPort}`);
    // Clients leave out the default port.
    if (socket.localPort === 80) own.push(...ownNames);
    // A site can point its own name at a loopback address (DNS rebinding), but the browser then sends that name.
    const hosts = headersDistinct.host ?? [''];
    const foreign = hosts.find((host) => !own.includes(host.toLowerCase()));
    if (foreign !== undefined) {
      throw new ServiceError(
        'foreignOrigin',
        `This gateway answers no request for ${quoteName(foreign)}; use http://${own[0]}`,
      );
    }
    const { origin } = headers;
    if (origin !== undefined && !own.some((host) => origin === `http://${host}`)) {
      throw new ServiceError('foreignOrigin', `This gateway answers no web page (${quoteName(origin)})`);
    }
    this.#checkSecret(headers.authorization ?? '');
    const [path = ''] = url.split('?', 1);
    if (!path.startsWith('/') || leavesPrefix(path)) {
      throw new ServiceError('badRequest', `This gateway forwards no request for ${quoteName(path)}`);
    }
    // An upload may begin without bytes, but not without its name.
    if (
      !this.passesFiles &&
      (hasBody(request) || headers[tus.headers.metadata.toLowerCase()] !== undefined)
    ) {
      throw new ServiceError(
        'notDeidentified',
        "'remote-app forward' passes no files on, because your profile or REMOTE_APP_DEIDENTIFY asks for --deidentify, which " +
          "it cannot do: send them with 'remote-app infer --deidentify', or start 'remote-app forward --no-deidentify' " +
          'if everything may leave as it is',
      );
    }
  }

  #checkSecret(authorization: string): void {
    const printed = "the one that 'remote-app forward' printed when it started";
    const [, scheme = '', given = ''] = /^(\S+) +(\S+)$/.exec(authorization) ?? [];
    if (scheme.toLowerCase() !== authScheme.toLowerCase()) {
      throw new ServiceError('missingToken', `This gateway needs a bearer token: ${printed}`);
    }
    if (!timingSafeEqual(digest(given), this.#secret)) {
      throw new ServiceError('invalidToken', `This is not the token of this gateway: use ${printed}`);
    }
  }
}
