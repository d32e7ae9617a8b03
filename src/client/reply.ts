import type { Dispatcher } from 'undici';
import { HttpError } from './errors.js';

/** An answer whose body is still to be read. */
export type Reply = Dispatcher.ResponseData;

/** One header of an answer; undefined where it is missing. */
export function header(reply: Reply, name: string): string | undefined {
  const value = reply.headers[name];
  return Array.isArray(value) ? value[0] : value;
}

/** One sentence from the body of an error, whichever server wrote it. */
function detailOf(body: unknown): string | null {
  if (typeof body !== 'object' || body === null) return null;
  const { detail, error } = body as { detail?: unknown; error?: unknown };
  if (typeof detail === 'string' && detail !== '') return detail;
  if (typeof error === 'string' && error !== '') return error;
  if (!Array.isArray(detail)) return null;
  const lines = detail.map((item: { loc?: unknown[]; msg?: unknown }) =>
    [item?.loc?.at(-1), item?.msg].filter(Boolean).join(': '),
  );
  return lines.join('; ') || null;
}

/**
 * Turns a refusal into the error that a command ends with.
 * @param text the body of the answer
 */
export function refusal(reply: Reply, text: string): HttpError {
  const seconds = Number(header(reply, 'retry-after') ?? Number.NaN);
  const retryAfter = Number.isFinite(seconds) && seconds >= 0 ? seconds : null;
  const { statusCode } = reply;
  const location = header(reply, 'location');
  if (statusCode >= 300 && statusCode < 400 && location) {
    return new HttpError(statusCode, `The server moved; give its new address instead: ${location}`, null);
  }
  let body: unknown = null;
  try {
    body = JSON.parse(text);
  } catch {
    // A proxy's page: its status says enough.
  }
  return new HttpError(
    statusCode,
    detailOf(body) ?? `The server answered with HTTP ${statusCode}`,
    retryAfter,
  );
}
