import { type Asked, answerError, connectionError, HubError } from './hub-error.js';

/** Milliseconds for the head of an answer, and for the whole of one that is read into memory. */
const answerTime = 30_000;

/** Most bytes of an answer that is read into memory: a page of a list of files has a thousand of them. */
const longestAnswer = 16 * 1024 * 1024;

/** Ends the body with an error where it becomes too long. */
function bounded(body: ReadableStream<Uint8Array>, endpoint: string): ReadableStream<Uint8Array> {
  let length = 0;
  return body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        length += chunk.length;
        if (length <= longestAnswer) controller.enqueue(chunk);
        else controller.error(new HubError(`${endpoint} answered with more than ${longestAnswer >> 20} MiB`));
      },
    }),
  );
}

/** Refuses an address that is not the hub's: the next page of a list is where the hub's answer says, and the token goes there. */
function checkOrigin(url: string, endpoint: string): void {
  if (new URL(url).origin === new URL(endpoint).origin) return;
  throw new HubError(`${endpoint} sends its callers on to ${new URL(url).origin}, which is not followed`);
}

interface Bounds {
  readonly asked: Asked;
  readonly signal: AbortSignal;
  /** Told of the error that is thrown: the package makes a text of it where it streams. */
  readonly onError?: (error: HubError) => void;
}

/** A `fetch` for answers that are read into memory, with limits for their time and their length. @throws HubError */
export const boundedFetch =
  ({ asked, signal }: Bounds): typeof fetch =>
  async (input, init) => {
    const { endpoint } = asked;
    try {
      checkOrigin(String(input), endpoint);
      const limit = AbortSignal.any([signal, AbortSignal.timeout(answerTime)]);
      const response = await fetch(input, { ...init, signal: limit });
      if (!response.ok) {
        await response.body?.cancel();
        throw answerError(response, asked);
      }
      const { status, headers } = response;
      return new Response(response.body && bounded(response.body, endpoint), { status, headers });
    } catch (cause) {
      signal.throwIfAborted();
      throw connectionError(cause, endpoint);
    }
  };

/**
 * A `fetch` for the content of a file, which its reader bounds. Where the request is for the rest of a file, an answer with
 * the whole of it is an error.
 */
export const fileFetch =
  ({ asked, signal, onError }: Bounds): typeof fetch =>
  async (input, init) => {
    const { endpoint } = asked;
    const head = new AbortController();
    const timer = setTimeout(() => head.abort(new DOMException('no answer', 'TimeoutError')), answerTime);
    try {
      const response = await fetch(input, { ...init, signal: AbortSignal.any([signal, head.signal]) });
      const isRest = new Headers(init?.headers).has('range');
      if (response.ok && !(isRest && response.status !== 206)) return response;
      await response.body?.cancel();
      if (response.ok) throw new HubError(`${endpoint} does not send the rest of a file`);
      throw answerError(response, asked);
    } catch (cause) {
      signal.throwIfAborted();
      const error = connectionError(cause, endpoint);
      onError?.(error);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  };
