import type { RouterContext } from '@koa/router';
import { type parameters, readText } from '../../contract/index.js';

/** The parameters of queries that are on or off. */
type BooleanParameter = Extract<(typeof parameters)[keyof typeof parameters], { kind: 'boolean' }>;

/**
 * Whether a query has this parameter, as `?redraws=1`.
 * @throws FieldError for a value that is neither true nor false
 */
export const isAskedFor = (ctx: RouterContext, { name, kind, help }: BooleanParameter): boolean =>
  readText({ name, kind, help }, [ctx.query[name] ?? ''].flat().join()) === true;
