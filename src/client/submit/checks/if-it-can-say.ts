import { exitCodes } from '../../../contract/errors.js';
import type { Connection } from '../../connection/index.js';
import { HttpError, TransportError } from '../../errors.js';

/** Seconds that such a question may take: without an answer the submission is sent, and the server decides. */
export const patience = 30;

/** Whether an error would end the submission as well. */
function stopsAll(error: unknown): boolean {
  if (error instanceof TransportError) return error.fault === 'unreached';
  if (!(error instanceof HttpError)) return false;
  const hasMoved = error.status < 400;
  return hasMoved || error.exitCode === exitCodes.notAuthorised;
}

/**
 * Asks a server for something that a submission can go without: null if the server does not know the route, as KonfAI's
 * knows no limits, or cannot answer now.
 * @throws what would end the submission too: no connection, a token that is refused, an interruption
 */
export async function ifItCanSay<T>(connection: Connection, ask: () => Promise<T>): Promise<T | null> {
  try {
    return await ask();
  } catch (error) {
    connection.signal?.throwIfAborted();
    if (stopsAll(error)) throw error;
    return null;
  }
}
