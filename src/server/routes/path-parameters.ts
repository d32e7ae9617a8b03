import type { RouterContext } from '@koa/router';

/** A parameter in the path of a request, decoded. A value that cannot be decoded stays as it is. */
export function captured(ctx: RouterContext, index = 0): string {
  const text = ctx.captures?.[index] ?? '';
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
