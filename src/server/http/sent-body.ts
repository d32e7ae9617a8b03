import type { ServerResponse } from 'node:http';

/** What has been sent of an answer's body. */
export interface SentBody {
  /** Bytes that were given to the connection. Where it broke, the last of them did not arrive. */
  readonly bytes: number;
  /** Whether the answer was sent to its end over a connection that was still there. */
  readonly isComplete: boolean;
}

/** Follows what is written to an answer from now on. Headers, and what HTTP puts around the pieces of a body, do not count. */
export function followBody(res: ServerResponse): SentBody {
  const sent = { bytes: 0, isComplete: false };
  const { write } = res;
  const counted = (...words: Parameters<typeof write>): boolean => {
    const [piece] = words;
    sent.bytes += typeof piece === 'string' ? Buffer.byteLength(piece) : piece.length;
    return Reflect.apply(write, res, words);
  };
  res.write = counted as typeof write;
  const { socket } = res.req;
  // Node emits this also if the connection broke before. First of the listeners, as another one ends the connection.
  res.prependOnceListener('finish', () => {
    sent.isComplete = !socket.destroyed;
  });
  return sent;
}
