import { Connection } from './connection.mjs';
import { until } from './until.mjs';

/** Frames a piece of a body as one chunk. */
export const chunk = (piece) =>
  Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')]);

const breath = () => new Promise((resolve) => setImmediate(resolve));

/** Waits until the socket accepts more, or the server has answered or closed. */
async function written(connection, piece) {
  const { socket } = connection;
  if (!socket.write(piece)) {
    const isDone = () => socket.writableLength === 0 || connection.isEnded || connection.received.length > 0;
    await until('the server takes the body', isDone, 30_000, 2);
  } else await breath();
}

/**
 * Sends a request piece by piece, as fast as the server takes it, until the server answers or closes.
 * @param pieces what is sent, an iterable of buffers: it may be endless, `most` bounds it
 * @returns status (0 where the connection closed without an answer), body, sent (bytes)
 */
export async function pour(server, pieces, { most = Number.POSITIVE_INFINITY, cut } = {}) {
  const connection = await Connection.open(server.url);
  let sent = 0;
  try {
    for (const whole of pieces) {
      if (connection.isEnded || connection.received.length > 0 || sent >= most) break;
      const piece = whole.subarray(0, most - sent);
      await written(connection, piece);
      sent += piece.length;
    }
    if (cut !== undefined) {
      cut(connection);
      return { status: 0, body: '', sent };
    }
    const answer = await connection.answer('the answer to a request that was sent whole');
    return { status: answer?.status ?? 0, body: answer?.body ?? '', sent };
  } finally {
    connection.close();
  }
}
