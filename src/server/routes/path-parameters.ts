import type { RouterContext } from '@koa/router';

/** A parameter in the path of a request, decoded. A value that cannot be decoded stays as it is. */
export function captured(ctx: RouterContext): string {
  const text = ctx.captures?.[0] ?? '';
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
