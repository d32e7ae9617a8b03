import type { Context, Middleware } from 'koa';
import { type Principal, theAdmin } from '../../access/principal.js';
import { ServiceError, wireDetails } from '../../contract/errors.js';
import { authScheme } from '../../contract/http.js';
import type { Access } from '../access/access.js';

const credentials = new RegExp(`^${authScheme} +(\\S.*)$`, 'i');

/** Asks for `Authorization: Bearer <token>` on every route (spec.md, Authentication), unless all of it is open. */
export function requireToken(access: Access): Middleware {
  const whoever = (ctx: Context): Principal => {
    if (access.isOpen) return theAdmin;
    const given = credentials.exec(ctx.get('Authorization').trim())?.[1];
    if (given === undefined) throw new ServiceError('missingToken', wireDetails.missingToken);
    return access.identify(given);
  };
  return (ctx, next) => {
    ctx.state.principal = whoever(ctx);
    return next();
  };
}

/** Who sends a request that `requireToken` has let in. @throws Error for any other request */
export function principalOf(ctx: Pick<Context, 'state'>): Principal {
  const known = ctx.state.principal as Principal | undefined;
  if (!known) throw new Error('Nobody has checked who sends this request');
  return known;
}

/**
 * @param deed what the request is for, such as `drain the server`
 * @throws ServiceError `adminOnly` for everybody but an admin
 */
export function requireAdmin(ctx: Pick<Context, 'state'>, deed: string): void {
  if (principalOf(ctx).role !== 'admin') {
    throw new ServiceError('adminOnly', `Only an admin's token may ${deed}`);
  }
}
