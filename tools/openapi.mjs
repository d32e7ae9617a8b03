/** The OpenAPI document, from the operations table, the routes and the error table. */
import { readFileSync } from 'node:fs';
import { carriesFiles, groupsField, maxInteger } from '../dist/contract/fields.js';
import { jobStates } from '../dist/contract/job.js';
import { operations } from '../dist/contract/operations.js';
import { routes } from '../dist/contract/routes.js';

const string = { type: 'string' };
const integer = { type: 'integer' };
const number = { type: 'number' };
const time = { type: ['string', 'null'], format: 'date-time' };
const array = (items) => ({ type: 'array', items });
const object = (properties, required = Object.keys(properties)) => ({ type: 'object', properties, required });

/** How a form carries a field: lists travel as text, separated by commas. */
function fieldSchema(field) {
  const description = field.help;
  if (field.kind === 'files') return { ...array({ type: 'string', format: 'binary' }), description };
  if (field.kind === 'archive') return { type: 'string', format: 'binary', description };
  const bounds = { ...(field.min === undefined ? {} : { minimum: field.min }), maximum: maxInteger };
  const above = field.above === undefined ? {} : { exclusiveMinimum: field.above };
  const byKind = {
    integer: { ...integer, ...bounds },
    number: { ...number, ...above },
    boolean: { type: 'boolean' },
    integers: array({ ...integer, ...bounds }),
    overrides: array({ ...string, pattern: '^[^-=][^=]*=' }),
  };
  const schema = byKind[field.kind] ?? string;
  return { ...schema, ...(field.default === undefined ? {} : { default: field.default }), description };
}

function optionsSchema(fields) {
  const known = Object.fromEntries(
    fields.filter((each) => each.option).map((each) => [each.name, fieldSchema(each)]),
  );
  return { ...object(known, []), additionalProperties: false, description: 'A JSON object, sent as text' };
}

function formSchema({ fields }) {
  const properties = {};
  for (const field of fields.filter((each) => !each.option)) {
    properties[field.name] = fieldSchema(field);
    if (field.kind !== 'files') continue;
    properties[groupsField(field)] = { ...string, description: 'Group sizes, separated by commas' };
  }
  properties.options = optionsSchema(fields);
  return object(
    properties,
    fields.filter((each) => carriesFiles(each) && each.required).map((each) => each.name),
  );
}

const json = (description, schema) => ({ description, content: { 'application/json': { schema } } });
const zip = {
  description: 'A zip archive',
  content: { 'application/zip': { schema: { ...string, format: 'binary' } } },
};
const reference = (name) => ({ $ref: `#/components/schemas/${name}` });

const sentences = {
  400: 'The body, an archive or a GPU id cannot be used',
  401: 'The token is missing or wrong',
  403: 'A server without a token answers no web page of another site',
  404: 'There is no such app or job',
  408: 'The upload stalled',
  409: 'The job was killed',
  410: 'The job has expired',
  413: 'A file or the upload is too large',
  415: 'The body is no multipart form',
  422: 'A field is missing or has a bad value',
  429: 'The server is busy',
  500: 'A fault of the server, or a job that failed',
  503: 'There is no GPU, its list is not known, or the server is stopping or has no connection to spare',
  507: "The server's disk is full",
};
const errors = (...statuses) =>
  Object.fromEntries(
    [401, 403, ...statuses].map((status) => [status, json(sentences[status], reference('Error'))]),
  );

const pathParameter = (name) => ({ name, in: 'path', required: true, schema: string });
const get = (summary, ok, extra = {}, parameters = []) => ({
  get: { summary, parameters, responses: { 200: ok, ...errors(), ...extra } },
});

function submissions() {
  const statuses = [400, 404, 408, 413, 415, 422, 429, 503, 507];
  return Object.entries(operations).map(([name, operation]) => [
    `${routes.submit}/{app}/${operation.segment}`,
    {
      post: {
        operationId: name,
        summary: operation.summary,
        parameters: [pathParameter('app'), { name: 'Idempotency-Key', in: 'header', schema: string }],
        requestBody: {
          required: true,
          content: { 'multipart/form-data': { schema: formSchema(operation) } },
        },
        responses: { 200: json('The job', reference('Envelope')), ...errors(...statuses) },
      },
    },
  ]);
}

const schemas = {
  Error: object({ detail: string }),
  Envelope: object({
    job_id: { ...string, pattern: '^[0-9a-f]{12}$' },
    status_url: string,
    logs_url: string,
    result_url: string,
    accepted_options: array(string),
  }),
  Job: object({
    job_id: string,
    status: { enum: jobStates },
    error: { type: ['string', 'null'] },
    app: string,
    operation: { enum: Object.keys(operations) },
    created_at: time,
    started_at: time,
    finished_at: time,
    expires_at: time,
    assigned_gpus: array(integer),
    queue_position: { type: ['integer', 'null'] },
    waiting_for: { type: ['string', 'null'] },
  }),
  Memory: object({ used_gb: number, total_gb: number }),
};

/** The document as an object. */
export function openApi() {
  const { version, license } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  const id = [pathParameter('id')];
  const app = [pathParameter('app')];
  const unfinished = json('The job has not ended', object({ job_id: string, status: string }));
  const ended = json(
    'The job failed or was killed',
    object({ job_id: string, status: string, error: string }),
  );
  const since = {
    name: 'since',
    in: 'query',
    schema: integer,
    description: 'Lines to skip; adds ids to the events',
  };
  const log = { description: 'The log', content: { 'text/event-stream': { schema: string } } };
  const gone = errors(404, 410);
  return {
    openapi: '3.1.0',
    info: { title: 'remote-app', version, license: { name: license, identifier: license } },
    security: [{ bearer: [] }],
    paths: {
      [routes.health]: get(
        'Whether the server answers',
        json('It does', object({ status: { const: 'ok' } })),
      ),
      [routes.devices]: get(
        'The GPUs',
        json('Ids and names', object({ devices_index: array(integer), devices_name: array(string) })),
        errors(503),
      ),
      [routes.ram]: get('RAM', json('Gigabytes', reference('Memory'))),
      [routes.vram]: get('VRAM', json('Gigabytes, summed', reference('Memory')), errors(400, 422, 503), [
        { name: 'devices', in: 'query', required: true, schema: array(integer) },
      ]),
      [routes.apps]: get('The apps', json('Their identifiers', object({ apps: array(string) }))),
      [`${routes.app}/{app}`]: get(
        'What an app is',
        json('Its description', { type: 'object' }),
        errors(404),
        app,
      ),
      [`${routes.appConfig}/{app}`]: get("An app's files without its weights", zip, errors(404), app),
      ...Object.fromEntries(submissions()),
      [routes.jobs]: get('The jobs, newest first', json('Jobs', object({ jobs: array(reference('Job')) }))),
      [`${routes.jobs}/{id}`]: get('One job', json('The job', reference('Job')), gone, id),
      [`${routes.jobs}/{id}/logs`]: get(
        "A job's log as server-sent events",
        log,
        { ...gone, ...errors(422, 429) },
        [...id, since],
      ),
      [`${routes.jobs}/{id}/result`]: get(
        'The result',
        zip,
        { 202: unfinished, 409: ended, 500: ended, ...gone },
        id,
      ),
      [`${routes.jobs}/{id}/kill`]: {
        post: {
          summary: 'Ends a job',
          parameters: id,
          responses: {
            200: json('It has ended', object({ job_id: string, status: string, message: string })),
            ...gone,
          },
        },
      },
    },
    components: { schemas, securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
  };
}
