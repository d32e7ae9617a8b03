import type { Context } from 'koa';

/** The parameter in the path of a request, decoded; empty if the router found none. One that cannot be decoded stays as it is. */
export function captured(ctx: Context): string {
  const text = String(ctx.captures?.[0] ?? '');
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
