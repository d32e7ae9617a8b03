import { HttpError, isGatewayError, TransportError } from '../errors.js';
import { type Connection, questionsAgain } from './connection.js';
import type { Patience } from './patience.js';

/** Whether the connection broke, or a proxy has no server behind it. A server that is busy has answered, and may be so for hours. */
const isOutage = (error: unknown): boolean =>
  error instanceof TransportError
    ? error.fault !== 'unusable'
    : error instanceof HttpError && error.isOfProxy && isGatewayError(error.status);

/**
 * Makes a request that may be made twice until it is answered, for as long as the patience lasts. A server that was never
 * reached is not waited for; one that never answers, and only cuts connections, is asked as often as for a GET.
 * @param ask is told whether an earlier request may have been carried out, although its answer did not come
 * @param left milliseconds after which the caller gives up for reasons of its own
 * @throws the error of the last attempt; the reason of an interruption
 */
export async function untilAnswered<T>(
  connection: Connection,
  patience: Patience,
  ask: (mayBeDone: boolean) => Promise<T>,
  left: () => number = () => Number.POSITIVE_INFINITY,
): Promise<T> {
  let mayBeDone = false;
  let cuts = 0;
  for (;;) {
    try {
      const answer = await ask(mayBeDone);
      patience.renew();
      return answer;
    } catch (error) {
      const fault = error instanceof TransportError ? error.fault : null;
      if (fault === 'broken') cuts += 1;
      const isReached = connection.isMet || (cuts > 0 && cuts <= questionsAgain);
      if (!isReached || !isOutage(error)) throw error;
      mayBeDone ||= fault === 'broken' || fault === 'timeout';
      await patience.after(error as Error, left());
    }
  }
}
