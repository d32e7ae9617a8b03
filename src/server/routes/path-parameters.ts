import type { RouterContext } from '@koa/router';

/** What the path has for its parameter, decoded; what cannot be decoded stays as it is. */
export function captured(ctx: RouterContext): string {
  const text = ctx.captures?.[0] ?? '';
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
