/** The reference page, from the operations table: each field as a form, our command line and the app's spell it. */
import { claimName } from '../dist/client/earlier-results.js';
import { defaultOutput, resultName } from '../dist/contract/archives.js';
import { errorKinds, exitCodeMeanings, exitCodes } from '../dist/contract/errors.js';
import { carriesFiles, flagName, groupsField } from '../dist/contract/fields.js';
import { operations } from '../dist/contract/operations.js';

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
  duration: 'seconds, or a time such as `90s`, `15m`, `12h`, `7d`, or `max`',
};

const row = (cells) => `| ${cells.join(' | ')} |`;
const table = (heading, rows) => [row(heading), row(heading.map(() => '---')), ...rows.map(row)].join('\n');
const code = (text) => `\`${text}\``;

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
  const positional = field.role === 'keep' ? 'not passed on' : 'positional';
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
  const exits = Object.entries(exitCodes).map(([name, value]) => [value, exitCodeMeanings[name]]);
  return `${[
    '# Reference',
    'Made from the operations table (`src/contract/operations.ts`) by `npm run generate`; do not edit. ' +
      'Every route, with its answers, is in [openapi.json](openapi.json).',
    '## Operations',
    ...Object.values(operations).map(operationSection),
    '## Where results go',
    `A result is saved as \`${resultName}\` and extracted beside it. Without \`--output\` that is \`${defaultOutput}\` or, if it has ` +
      `files, the first of \`${defaultOutput}-2\`, \`${defaultOutput}-3\` and so on that has none. A directory that \`--output\` ` +
      'names must be empty or new: this is checked before anything is sent, and `--force` writes into it all the same. If it ' +
      'has got files by the time the result comes, a numbered directory beside it is taken. Two commands never fill one ' +
      `directory: while one is being filled, \`${claimName}\` in it names the job, and \`result JOB\` takes up there what was ` +
      'broken off. `--output -` writes the zip to stdout, and the log to stderr.',
    '## Errors',
    'Every error body is `{"detail": "<one sentence>"}`. 429 and 503 carry `Retry-After`.',
    table(['error', 'status', 'exit code of a client', 'what it means'], errors),
    '## Exit codes',
    table(['code', 'meaning'], exits),
  ].join('\n\n')}\n`;
}
