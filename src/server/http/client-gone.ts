import type { Context } from 'koa';

/**
 * Calls back once, when the answer is sent or the client is gone. A pipelined answer that waits for the previous one gets no
 * event when the connection ends, so this also listens to the connection.
 */
export function whenGone({ req, res }: Pick<Context, 'req' | 'res'>, callback: () => void): void {
  const { socket } = req;
  let isGone = false;
  const gone = () => {
    res.off('close', gone);
    socket.off('close', gone);
    // The connection's event may arrive during the callback for the answer's event, and then again.
    if (!isGone) callback();
    isGone = true;
  };
  if (socket.destroyed) {
    callback();
    return;
  }
  // Each request that waits on the connection has one listener, and Koa, a pipeline and others listen to an answer as well.
  socket.setMaxListeners(0);
  res.setMaxListeners(0);
  res.once('close', gone);
  socket.once('close', gone);
}

/** A signal that is aborted when the answer is sent or the client is gone. */
export function goneSignal(ctx: Pick<Context, 'req' | 'res'>): AbortSignal {
  const gone = new AbortController();
  whenGone(ctx, () => gone.abort());
  return gone.signal;
}
