import type { RouterContext } from '@koa/router';
import { mediaTypes, resultName } from '../../contract/index.js';

/** Begins an answer with a zip archive, which is sent without Koa. */
export function setArchiveHeaders(ctx: RouterContext): void {
  ctx.respond = false;
  ctx.res.statusCode = 200;
  ctx.res.setHeader('Content-Type', mediaTypes.zip);
  ctx.res.setHeader('Content-Disposition', `attachment; filename="${resultName}"`);
  ctx.res.setHeader('Cache-Control', 'no-store');
}
