import { excerpt, quoteName } from '../../contract/index.js';
import { errorCode } from '../../files/index.js';

/** What was requested from the hub, for error messages. */
export interface HubQuestion {
  readonly endpoint: string;
  readonly repository: string;
  readonly revision: string;
  readonly hasToken: boolean;
}

/** Something in a repository is unavailable. Clients see the message, so it contains no path. It ends without a full stop. */
export class HubError extends Error {
  override readonly name = 'HubError';

  constructor(
    message: string,
    /** Whether an immediate retry may help. */
    readonly isPassing = false,
    /** Seconds to wait before the next request, if the hub names them. */
    readonly retryAfter = 0,
  ) {
    super(message);
  }
}

function wayIn({ hasToken, endpoint }: HubQuestion): string {
  return hasToken
    ? `the token of this server may not read it: accept its terms at ${endpoint}, or use another token`
    : 'if it is private or gated, set HF_TOKEN to a token that may read it';
}

/** The error for an answer of the hub that is not a success. */
export function answerError(response: Response, asked: HubQuestion): HubError {
  const { status, headers } = response;
  const { endpoint, revision } = asked;
  const name = quoteName(asked.repository);
  const code = headers.get('x-error-code') ?? '';
  const retryAfter = Math.min(Math.max(Number(headers.get('retry-after')) || 0, 0), 3600);
  if (code === 'RevisionNotFound') {
    return new HubError(`Repository ${name} has no revision ${quoteName(revision)} at ${endpoint}`);
  }
  if (code === 'GatedRepo')
    return new HubError(`Repository ${name} is gated at ${endpoint}: ${wayIn(asked)}`);
  if (code === 'EntryNotFound')
    return new HubError(`A file of ${name} is listed at ${endpoint}, but is not there`);
  // The hub answers 401 for a repository that does not exist, so as not to reveal which private ones do.
  if (status === 401 || status === 403 || status === 404) {
    return new HubError(`${endpoint} shows this server no repository ${name} (${status}): ${wayIn(asked)}`);
  }
  if (status === 429) {
    return new HubError(
      `${endpoint} was asked too often (429) and answers again later`,
      false,
      retryAfter || 60,
    );
  }
  return new HubError(
    `${endpoint} answered ${status} when it was asked for ${name}`,
    status >= 500,
    retryAfter,
  );
}

/** The error for a request that got no answer. */
export function connectionError(cause: unknown, endpoint: string): HubError {
  if (cause instanceof HubError) return cause;
  if (cause instanceof Error && cause.name === 'TimeoutError') {
    return new HubError(`${endpoint} took too long to answer`, true);
  }
  const under = cause instanceof Error && cause.cause !== undefined ? cause.cause : cause;
  const why = errorCode(under) || excerpt(under instanceof Error ? under.message : String(under), 200);
  return new HubError(`${endpoint} was not reached (${why})`, true);
}
