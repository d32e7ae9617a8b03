import type { Context } from 'koa';
import { type parameters, readText } from '../../contract/index.js';
import { orElse } from '../../files/index.js';

/**
 * The parameter in the path of a request, decoded; empty if the router found none. If it cannot be decoded, it is returned as it
 * was sent.
 */
export function captured(ctx: Context): string {
  const text = String(ctx.captures?.[0] ?? '');
  return orElse(() => decodeURIComponent(text), text);
}

/** The text of a query parameter, with repeated values joined by commas; empty if it is missing. */
export const queryText = (ctx: Context, { name }: { readonly name: string }): string =>
  [ctx.query[name] ?? []].flat().join();

/** The on/off parameters of queries. */
type BooleanParameter = Extract<(typeof parameters)[keyof typeof parameters], { kind: 'boolean' }>;

/**
 * Whether a query sets this parameter, as in `?redraws=1`.
 * @throws FieldError for a value that is neither true nor false
 */
export const isAskedFor = (ctx: Context, { name, kind, help }: BooleanParameter): boolean =>
  readText({ name, kind, help }, queryText(ctx, { name })) === true;
