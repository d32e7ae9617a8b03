/** The reference page, from the operations table: each field as a form, our command line and the app's spell it. */

import { volumeSuffix } from '../dist/contract/archives.js';
import { errorKinds } from '../dist/contract/errors.js';
import { carriesFiles, flagName, groupsField, isOfService } from '../dist/contract/fields.js';
import { operations } from '../dist/contract/operations.js';
import { refusedResult, withoutResult } from '../dist/contract/routes.js';
import { code, table } from './markdown.mjs';

const kinds = {
  files: 'files',
  archive: 'one zip archive',
  integer: 'integer',
  number: 'number',
  boolean: 'boolean',
  name: 'plain name',
  path: 'relative path inside the app',
  paths: 'CSV of relative paths inside the app',
  gpus: 'CSV of GPU ids',
  integers: 'non-empty list of integers',
  overrides: 'non-empty list of `NAME=VALUE`',
  text: 'text on one line, at most 200 characters',
  duration: 'seconds, or a time such as `90s`, `15m`, `12h`, `7d`, or `max`',
};

function range(field) {
  if (field.min !== undefined) return `, at least ${field.min}`;
  return field.above === undefined ? '' : `, greater than ${field.above}`;
}

function defaultOf(field) {
  if (field.required) return 'required';
  return field.default === undefined ? '' : code(field.default);
}

function flagOf(field) {
  const flag = `--${field.kind === 'boolean' && field.default === true ? '[no-]' : ''}${flagName(field)}`;
  return field.char ? `${code(`-${field.char}`)}, ${code(flag)}` : code(flag);
}

function formName(field) {
  if (field.option) return `${code('options')}: ${code(field.name)}`;
  return field.kind === 'files' ? `${code(field.name)}, ${code(groupsField(field))}` : code(field.name);
}

function fieldRow(field) {
  const positional = isOfService(field) ? 'not passed on' : 'positional';
  const argument = field.argument ? code(field.argument) : positional;
  const kind = kinds[field.kind] + range(field);
  return [formName(field), kind, defaultOf(field), flagOf(field), argument, field.help];
}

function operationSection(operation) {
  const heading = ['form', 'value', 'default', 'our flag', "the app's", 'what it is'];
  const fields = [
    ...operation.fields.filter(carriesFiles),
    ...operation.fields.filter((field) => !carriesFiles(field)),
  ];
  return [
    `### ${operation.command}`,
    `${operation.summary}. \`POST /apps/{app}/${operation.segment}\`, \`remote-app ${operation.command}\`; the app is run with \`${operation.verb}\`.`,
    table(heading, fields.map(fieldRow)),
  ].join('\n\n');
}

/** The page's text. */
export function referencePage() {
  const errors = Object.entries(errorKinds).map(([name, { status, exit, means }]) => [
    code(name),
    status,
    exit,
    means,
  ]);
  return `${[
    '# Reference',
    'Made from the operations table (`src/contract/operations.ts`) by `npm run generate`; do not edit. The fields of each ' +
      "operation, as a form, our command line and the app's command line spell them, and the errors of the service. " +
      'The commands are in [cli.md](cli.md), every route with its answers in [openapi.json](openapi.json).',
    '## Operations',
    'A form has a part for each file. The files of a field are one group, unless `..._groups` gives the sizes of several (`2,1`: a ' +
      `group of two, then one of one); on our command line a flag is one group. A part named \`NAME${volumeSuffix}\` is one ` +
      'directory, such as a DICOM series, as a zip archive. `options` is a JSON object, sent as text.',
    ...Object.values(operations).map(operationSection),
    '## Errors',
    'Every error body is `{"detail": "<one sentence>"}`, but for that of `GET /jobs/{id}/result` where the job has no result, which is ' +
      `\`{"job_id", "status", "error"}\`: ${withoutResult.error} the job failed, ${refusedResult} its app refused its input, ` +
      `${withoutResult.killed} it was killed. 429 and 503 carry \`Retry-After\`.`,
    table(['error', 'status', 'exit code of a client', 'what it means'], errors),
  ].join('\n\n')}\n`;
}
