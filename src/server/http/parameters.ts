import type { Context } from 'koa';
import { type parameters, readText } from '../../contract/index.js';
import { orElse } from '../../files/index.js';

/** The parameter in the path of a request, decoded; empty if the router found none. One that cannot be decoded stays as it is. */
export function captured(ctx: Context): string {
  const text = String(ctx.captures?.[0] ?? '');
  return orElse(() => decodeURIComponent(text), text);
}

/** The text of a query's parameter, whose repetitions are a list; empty if it is not there. */
export const queryText = (ctx: Context, { name }: { readonly name: string }): string =>
  [ctx.query[name] ?? []].flat().join();

/** The on/off parameters of queries. */
type BooleanParameter = Extract<(typeof parameters)[keyof typeof parameters], { kind: 'boolean' }>;

/**
 * Whether a query has this parameter, as `?redraws=1`.
 * @throws FieldError for a value that is neither true nor false
 */
export const isAskedFor = (ctx: Context, { name, kind, help }: BooleanParameter): boolean =>
  readText({ name, kind, help }, queryText(ctx, { name })) === true;
