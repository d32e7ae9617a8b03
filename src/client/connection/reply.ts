import type { Dispatcher } from 'undici';
import type * as z from 'zod/mini';
import {
  errorKinds,
  excerpt,
  type Field,
  flagName,
  jobIdOf,
  operationNames,
  operationOf,
  quoteName,
  wireDetails,
} from '../../contract/index.js';
import { HttpError, isGatewayError, isOfAnother, isRedirect, proxyLoginStatus } from '../errors.js';
import { needsTls, type Transport } from './transport.js';

const allFields = operationNames.flatMap((name) => operationOf(name).fields);

function flagOf(isMeant: (field: Field) => boolean): string | undefined {
  const field = allFields.find(isMeant);
  return field && `--${flagName(field)}`;
}

/** The flag of a form field; any other name is returned unchanged. */
const fieldAsFlag = (name: string): string => flagOf((field) => field.name === name) ?? name;

/**
 * Rewrites a message from a server or an app for users of the command line: form fields (`Field 'options.patch_size'`) and app
 * arguments (`--patch_size`) are replaced by flags.
 */
export const withFlags = (sentence: string): string =>
  sentence
    .replaceAll(/\bField '(?:options\.)?(\w+)'/g, (text, name: string) =>
      fieldAsFlag(name) === name ? text : fieldAsFlag(name),
    )
    .replaceAll(
      /(?<![\w-])--[a-z]+(?:_[a-z]+)+(?!\w)/g,
      (text) => flagOf(({ argument }) => argument === text) ?? text,
    );

/** The texts with which nginx, Apache and Go's server report a plain request to a TLS port. */
const plainToTls =
  /plain HTTP request was sent to HTTPS port|speaking plain HTTP to an SSL-enabled|HTTP request to an HTTPS server/;

/** The message if a proxy from the environment refuses to reach a server. */
export const notLetThrough = (proxy: string, target: string, status: number): string =>
  `${proxy} does not let anybody reach ${target} (HTTP ${status}); ask its admin to allow it, ` +
  'or list the host in NO_PROXY if it can be reached directly';

/**
 * Explains an error answer that does not come from the service, but usually from a proxy on the way.
 * @param text content of the page
 */
function pageSentence(
  status: number,
  text: string,
  server: string,
  transport: Transport | undefined,
): string {
  if (status === 400 && plainToTls.test(text)) return needsTls(server).message;
  if (transport?.forward) {
    if (status === 403) return notLetThrough(transport.name, server, status);
    if (isGatewayError(status)) return `${transport.name} cannot reach ${server} (HTTP ${status})`;
  }
  if (status === 413) {
    return (
      `A proxy in front of ${server} refuses an upload of this size (HTTP 413); its admin can allow it: ` +
      "nginx does with 'client_max_body_size 0;'"
    );
  }
  if (isOfAnother(status)) {
    return `${server} answered with HTTP ${status}, and not as the service does: is that its address?`;
  }
  return isGatewayError(status)
    ? `A proxy answers at ${server}, but the server behind it does not (HTTP ${status}); its admin can check whether it is running`
    : `${server} answered with HTTP ${status}`;
}

/** An answer whose body has not been read yet. */
export type Reply = Dispatcher.ResponseData;

/** One header of an answer; undefined if it is missing. */
export function header(reply: Reply, name: string): string | undefined {
  const value = reply.headers[name];
  return Array.isArray(value) ? value[0] : value;
}

/** Maximum `Retry-After` that is accepted, in seconds. */
const maxWait = 86_400;

/** The `Retry-After` of an answer in seconds; null if missing or unreasonable. */
export function retryAfter(reply: Reply): number | null {
  const asked = header(reply, 'retry-after') ?? '';
  const seconds = /^\d{1,5}$/.test(asked) ? Number(asked) : Number.NaN;
  return seconds <= maxWait ? seconds : null;
}

type Schemas = typeof import('./answer-schemas.js');

/** Parses a body other than the requested answer; undefined if it has another shape, such as a proxy's page. */
export async function bodyOf<T>(
  text: string,
  schemaOf: (schemas: Schemas) => { safeParse(document: unknown): { data?: T | undefined } },
): Promise<T | undefined> {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    return undefined;
  }
  return schemaOf(await import('./answer-schemas.js')).safeParse(document).data;
}

/** One sentence from the body of an error answer, from remote-app or KonfAI's server. */
function detailOf({ detail, error }: z.infer<Schemas['refusalBody']>): string | null {
  if (!Array.isArray(detail)) return detail || error || null;
  const lines = detail.map(({ loc, msg }) => {
    const place = loc?.at(-1);
    return [typeof place === 'string' ? fieldAsFlag(place) : typeof place === 'number' ? place : '', msg]
      .filter((part) => part !== '' && part !== undefined)
      .join(': ');
  });
  return lines.join('; ') || null;
}

/** The request that an answer belongs to: the server's address and the path. */
export interface Asked {
  readonly server: string;
  readonly path: string;
  /** The command that lists the jobs. */
  readonly list: string;
  /** How the server is reached, if not directly. */
  readonly transport?: Transport | undefined;
}

/** The client's own sentence for a refusal, if it knows more than the server says: which job, which server. */
function ownSentence(status: number, detail: string, { server, path, list }: Asked): string {
  const again = `run 'remote-app login --server ${server}'`;
  if (status === errorKinds.missingToken.status && detail === wireDetails.missingToken) {
    return `${server} needs a token: ${again}`;
  }
  if (status === errorKinds.invalidToken.status && detail === wireDetails.invalidToken) {
    return `${server} does not accept this token: ${again} with another one`;
  }
  const job = jobIdOf(path);
  if (status === errorKinds.unknownJob.status && detail === wireDetails.unknownJob && job !== undefined) {
    return `No job ${quoteName(job)} on ${server}; '${list}' lists them`;
  }
  if (status === errorKinds.expired.status && job !== undefined && !detail.includes(job)) {
    // KonfAI's server says only that something has expired.
    return `Job ${job} on ${server} has no result any more: ${excerpt(detail)}`;
  }
  if (status === errorKinds.notFound.status && /^(There is no [A-Z]+ \/|Not Found$)/.test(detail)) {
    return `${server} has no ${excerpt(path)}: is that the address of the service?`;
  }
  return excerpt(status === errorKinds.invalidField.status ? withFlags(detail) : detail);
}

/** Turns an error answer into an HttpError. @param text the body of the answer, or the part that was read */
export async function refusal(reply: Reply, text: string, asked: Asked): Promise<HttpError> {
  const { server, transport } = asked;
  const { statusCode } = reply;
  const location = header(reply, 'location');
  if (isRedirect(statusCode) && location) {
    const place = quoteName(location, 500);
    const sentence = `${server} sends ${excerpt(asked.path, 200)} on to ${place}; if it has moved, give its new address`;
    return new HttpError(statusCode, sentence, null);
  }
  if (statusCode === proxyLoginStatus && transport?.loginRefused) {
    return transport.loginRefused([reply.headers['proxy-authenticate'] ?? []].flat().join(', '));
  }
  const data = await bodyOf(text, ({ refusalBody }) => refusalBody);
  const detail = data ? detailOf(data) : null;
  if (detail !== null) {
    const sentence = ownSentence(statusCode, detail, asked);
    return new HttpError(statusCode, sentence, retryAfter(reply), false, data?.uploads);
  }
  const sentence = pageSentence(statusCode, text, server, transport);
  return new HttpError(statusCode, sentence, retryAfter(reply), true);
}

/** Discards an answer without reading its body. */
export function discard({ body }: Reply): void {
  body.on('error', () => {}).destroy();
}
