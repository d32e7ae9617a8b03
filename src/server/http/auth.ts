import { createHash, timingSafeEqual } from 'node:crypto';
import type { Middleware } from 'koa';
import { ServiceError, wireDetails } from '../../contract/errors.js';
import { authScheme } from '../../contract/http.js';

/** Tokens are compared as hashes: these have one length, so that the comparison takes constant time. */
const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

const credentials = new RegExp(`^${authScheme} +(\\S.*)$`, 'i');

/** Asks for `Authorization: Bearer <token>` on every route (spec.md, Authentication); null leaves all open. */
export function requireToken(token: string | null): Middleware {
  if (token === null) return (_ctx, next) => next();
  const expected = digest(token);
  return (ctx, next) => {
    const given = credentials.exec(ctx.get('Authorization').trim())?.[1];
    if (given === undefined) throw new ServiceError('missingToken', wireDetails.missingToken);
    if (!timingSafeEqual(digest(given), expected))
      throw new ServiceError('invalidToken', wireDetails.invalidToken);
    return next();
  };
}
