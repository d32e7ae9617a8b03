import type { Context, Middleware } from 'koa';
import { type Owner, ownerInWords, type Principal, theAdmin } from '../../access/index.js';
import { authScheme, ServiceError, wireDetails } from '../../contract/index.js';
import type { Access } from '../access/index.js';
import { whenGone } from './client-gone.js';

const credentials = new RegExp(`^${authScheme} +(\\S.*)$`, 'i');

/** What a long request knows about its sender. */
export interface Sender {
  /** Identifies the sender again. @throws ServiceError `invalidToken` if the token is no longer accepted */
  readonly now: () => Principal;
  /** Aborted when the token is no longer accepted; the reason is the error for the client. */
  readonly refused: AbortSignal;
}

/**
 * Requires `Authorization: Bearer <token>` on every route (docs/http.md, Authentication), unless the server is open. An answer in
 * progress, such as a log stream or a download, is cut off when the token may no longer get it.
 */
export function requireToken(access: Access): Middleware {
  return (ctx, next) => {
    const refused = new AbortController();
    if (access.isOpen) {
      ctx.state.principal = theAdmin;
      ctx.state.sender = { now: () => theAdmin, refused: refused.signal } satisfies Sender;
      return next();
    }
    const token = credentials.exec(ctx.get('Authorization').trim())?.[1];
    if (token === undefined) throw new ServiceError('missingToken', wireDetails.missingToken);
    const principal = access.identify(token);
    const now = () => access.identifyAgain(token, principal);
    ctx.state.principal = principal;
    ctx.state.sender = { now, refused: refused.signal } satisfies Sender;
    const isOver = access.watch(token, principal, (refusal) => {
      if (refusal) refused.abort(refusal);
      if (ctx.res.headersSent) ctx.req.socket.destroy();
    });
    whenGone(ctx, isOver);
    return next();
  };
}

/**
 * Limits how many requests of a user can be in progress, so that slow ones cannot occupy all connections. Admins are trusted, and
 * not limited.
 * @param max requests per user
 */
export function limitRequests(max: number): Middleware {
  const underWay = new Map<Owner, number>();
  return (ctx, next) => {
    const { name, role } = principalOf(ctx);
    if (role === 'admin') return next();
    const requests = underWay.get(name) ?? 0;
    if (requests >= max) {
      const detail = `Server busy: ${ownerInWords(name)} already has ${max} requests in progress; try again soon`;
      throw new ServiceError('tooManyConnections', detail);
    }
    underWay.set(name, requests + 1);
    whenGone(ctx, () => {
      const left = (underWay.get(name) ?? 1) - 1;
      if (left > 0) underWay.set(name, left);
      else underWay.delete(name);
    });
    return next();
  };
}

/** The sender of a request that `requireToken` has admitted, while the request is in progress. */
export const senderOf = (ctx: Pick<Context, 'state'>): Sender => ctx.state.sender as Sender;

/** The principal of a request that `requireToken` has admitted. @throws Error for any other request */
export function principalOf(ctx: Pick<Context, 'state'>): Principal {
  const known = ctx.state.principal as Principal | undefined;
  if (!known) throw new Error('Nobody has checked who sends this request');
  return known;
}

/**
 * Refuses everybody except an admin.
 * @param deed what the request wants to do, such as `drain the server`
 * @throws ServiceError `adminOnly`
 */
export function requireAdmin(ctx: Pick<Context, 'state'>, deed: string): void {
  if (principalOf(ctx).role !== 'admin') {
    throw new ServiceError('adminOnly', `Only an admin's token may ${deed}`);
  }
}
