import type { Dispatcher } from 'undici';
import { excerpt, quoteName } from '../../contract/quote.js';
import { HttpError } from '../errors.js';

/** An answer whose body is still to be read. */
export type Reply = Dispatcher.ResponseData;

/** One header of an answer; undefined where it is missing. */
export function header(reply: Reply, name: string): string | undefined {
  const value = reply.headers[name];
  return Array.isArray(value) ? value[0] : value;
}

/** Longest wait that a server can ask for in earnest, in seconds. */
const longestWait = 86_400;

/** Seconds after which a server wants to be asked again; null where it names none that makes sense. */
export function retryAfter(reply: Reply): number | null {
  const asked = header(reply, 'retry-after') ?? '';
  const seconds = /^\d{1,5}$/.test(asked) ? Number(asked) : Number.NaN;
  return seconds <= longestWait ? seconds : null;
}

/** One sentence from the body of an error, whichever server wrote it. */
async function detailOf(text: string): Promise<string | null> {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    // A proxy's page: its status says enough.
    return null;
  }
  const { refusalBody } = await import('./answer-schemas.js');
  const { data } = refusalBody.safeParse(body);
  if (!data) return null;
  if (!Array.isArray(data.detail)) return data.detail || data.error || null;
  const lines = data.detail.map(({ loc, msg }) => {
    const place = loc?.at(-1);
    return [typeof place === 'string' || typeof place === 'number' ? place : '', msg]
      .filter((part) => part !== '' && part !== undefined)
      .join(': ');
  });
  return lines.join('; ') || null;
}

/**
 * Turns a refusal into the error that a command ends with.
 * @param text the body of the answer, or what was read of it
 */
export async function refusal(reply: Reply, text: string, server: string): Promise<HttpError> {
  const { statusCode } = reply;
  const location = header(reply, 'location');
  if (statusCode >= 300 && statusCode < 400 && location) {
    const place = quoteName(location, 500);
    return new HttpError(statusCode, `${server} moved; give its new address instead: ${place}`, null);
  }
  const detail = await detailOf(text);
  return new HttpError(
    statusCode,
    detail === null ? `${server} answered with HTTP ${statusCode}` : excerpt(detail),
    retryAfter(reply),
  );
}
