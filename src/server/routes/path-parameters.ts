import type { RouterContext } from '@koa/router';

/** A part of the path that the route's expression captured, decoded; what cannot be decoded stays as it is. */
export function captured(ctx: RouterContext, index = 0): string {
  const text = ctx.captures?.[index] ?? '';
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
