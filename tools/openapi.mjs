/** The OpenAPI document, from the table of routes, the operations table and the error table. */
import { readFileSync } from 'node:fs';
import { errorKinds } from '../dist/contract/errors.js';
import { authScheme, mediaTypes, partSizeHeader } from '../dist/contract/http.js';
import { operations } from '../dist/contract/operations.js';
import { commonErrors, routes, unroutedErrors } from '../dist/contract/routes.js';
import { array, binary, boolean, integer, string } from './json-schema.mjs';
import { descriptions, schemas, typeOf, withoutBody } from './openapi-bodies.mjs';
import { formSchema, namedFormSchema } from './openapi-form.mjs';

/** The values of a request's parameters. */
const values = { text: string, integer, integers: array(integer), boolean };

const reference = (name) => ({ $ref: `#/components/schemas/${name}` });

/** The parameters of a route: those that its path names, and those of the query and the headers. */
function parametersOf({ path, parameters = [] }) {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: string,
  }));
  const others = parameters.map(({ name, in: place, kind, help, required }) => ({
    name,
    in: place,
    ...(required ? { required } : {}),
    schema: values[kind],
    description: help,
  }));
  return [...inPath, ...others];
}

/** The errors that a route may answer with. */
const errorsOf = ({ errors }) => [...commonErrors, ...errors].map((code) => errorKinds[code]);

/** The answer with this status: its body, its errors, or both; or the one without a body. */
function response(route, status) {
  const body = route.answers[status];
  if (body === null) return { description: withoutBody[status] };
  const kinds = errorsOf(route).filter((kind) => kind.status === status);
  const names = [...(body ? [body] : []), ...(kinds.length > 0 ? ['Error'] : [])];
  const schema = names.length === 1 ? reference(names[0]) : { oneOf: names.map(reference) };
  const retry = kinds.some(({ retryAfter }) => retryAfter !== undefined);
  return {
    description: [...(body ? [descriptions[body]] : []), ...kinds.map(({ means }) => means)].join('; or: '),
    ...(retry ? { headers: { 'Retry-After': { schema: integer, description: 'Seconds' } } } : {}),
    content: { [body ? typeOf(body) : mediaTypes.json]: { schema } },
  };
}

/** What a route takes as its body; nothing for one that takes none. */
function requestBody({ form, bytes }) {
  if (bytes) return { requestBody: { content: { [mediaTypes.offsetStream]: { schema: binary } } } };
  if (!form) return {};
  const content = {
    [mediaTypes.form]: { schema: formSchema(operations[form]) },
    [mediaTypes.json]: { schema: namedFormSchema(operations[form]) },
  };
  return { requestBody: { required: true, content } };
}

function operationOf(name, route) {
  const errors = errorsOf(route).map(({ status }) => status);
  const statuses = [...new Set([...Object.keys(route.answers).map(Number), ...errors])].sort((a, b) => a - b);
  return {
    operationId: name,
    summary: route.summary,
    parameters: parametersOf(route),
    ...requestBody(route),
    responses: Object.fromEntries(statuses.map((status) => [status, response(route, status)])),
  };
}

function paths() {
  const all = {};
  for (const [name, route] of Object.entries(routes)) {
    all[route.path] ??= {};
    all[route.path][route.method.toLowerCase()] = operationOf(name, route);
  }
  return all;
}

/** What holds for more than one route. */
function description() {
  const statuses = [...new Set(unroutedErrors.map((code) => errorKinds[code].status))];
  return [
    `A request that cannot be read, or that no route is for, is answered ${statuses.join(', ')}, with the body of every error; a 405 has 'Allow'.`,
    "HEAD is answered as GET is, without the body. For a result, the headers 'Range', 'If-Range', 'If-Match', 'If-None-Match' and their like mean what HTTP says.",
    `A part of a form may say with the header '${partSizeHeader}' how many bytes it sends: a file that is too large is then refused before its first byte, and a part of another size is 400.`,
  ].join(' ');
}

/** The document as an object. */
export function openApi() {
  const { version, license } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  return {
    openapi: '3.1.0',
    info: {
      title: 'remote-app',
      version,
      description: description(),
      license: { name: license, identifier: license },
    },
    security: [{ bearer: [] }],
    paths: paths(),
    components: { schemas, securitySchemes: { bearer: { type: 'http', scheme: authScheme.toLowerCase() } } },
  };
}
