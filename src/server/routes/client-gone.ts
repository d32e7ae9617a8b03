import type { RouterContext } from '@koa/router';

/**
 * Calls back once when the answer is sent or the client is gone. An answer that waits on its connection behind
 * another one hears nothing of the connection's end, so the connection itself is listened to as well.
 */
export function whenGone({ req, res }: RouterContext, callback: () => void): void {
  const { socket } = req;
  let isGone = false;
  const gone = () => {
    res.off('close', gone);
    socket.off('close', gone);
    // The end of the connection may be told within that of the answer, and then again.
    if (!isGone) callback();
    isGone = true;
  };
  if (socket.destroyed) {
    callback();
    return;
  }
  // As many as the client has requests waiting.
  socket.setMaxListeners(0);
  res.once('close', gone);
  socket.once('close', gone);
}

/** A signal that is aborted when the answer is sent or the client is gone. */
export function goneSignal(ctx: RouterContext): AbortSignal {
  const gone = new AbortController();
  whenGone(ctx, () => gone.abort());
  return gone.signal;
}
