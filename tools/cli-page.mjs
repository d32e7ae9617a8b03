/** The page of the command line: every command with its flags, its examples and its JSON documents. */
import { defaultOutput, resultName } from '../dist/contract/archives.js';
import { exitCodeMeanings, exitCodes } from '../dist/contract/errors.js';
import {
  commandsOf,
  filled,
  groupsOf,
  ownFlags,
  sharedFlags,
  spellings,
  typed,
  variablesOf,
} from './commands.mjs';
import { documentTable, errorTable } from './document-table.mjs';
import { errorDocument, jsonDocuments } from './json-documents.mjs';
import { cell, code, table } from './markdown.mjs';

const intro = `# The command line

Made from the commands by \`npm run generate\`; do not edit. Every command and flag, and what \`--json\` prints. How the fields of an
operation are spelled in a form and on an app's command line is in [reference.md](reference.md), what an app is in
[apps.md](apps.md).

A flag counts before the environment, the environment before a profile, a profile before the defaults. \`--profile\` is a
flag: its server and its token replace those of the environment. The result of a command goes to stdout; progress, hints and errors go to
stderr.`;

const json = `With \`--json\` stdout is one JSON document and nothing else; the log of a job goes to stderr then. Commands that follow something
(\`logs\`, and \`--watch\`) print one document on each line. Names are spelled as the service spells them, with underscores. A name that is not
described here may be added later. A command that fails prints this document instead; of one that is about several jobs, the
error of a job stands in its entry.`;

const value = (flag) => (flag.type === 'option' ? ` ${flag.helpValue ?? 'VALUE'}` : '');

/** A default, unless the description has it already. */
function defaultOf(flag, about) {
  if (flag.default === undefined || flag.type === 'boolean' || about.includes('[default:')) return '';
  return code([flag.default].flat().join(' ') || "''");
}

function flagRow(flag) {
  const about = flag.summary ?? flag.description ?? '';
  const known = /\[default: ([^\]]*)\]/.exec(about)?.[1];
  const more = [
    ...(flag.multiple && !about.includes('repeatable') ? ['May be repeated'] : []),
    ...(flag.options ? [`One of ${flag.options.map(code).join(', ')}`] : []),
    ...(flag.aliases?.length ? [`Also ${flag.aliases.map((each) => code(`--${each}`)).join(', ')}`] : []),
  ].map((each) => `. ${each}`);
  const [first = '', ...rest] = spellings(flag).reverse();
  return [
    cell([...rest, first + value(flag)].map(code).join(', ')),
    known === undefined ? defaultOf(flag, about) : known,
    flag.env ? code(flag.env) : '',
    cell(about.replace(/\s*\[default: [^\]]*\]/, '') + more.join('')),
  ];
}

const flagTable = (flags) => table(['flag', 'default', 'environment', 'what it is'], flags.map(flagRow));

function argumentWord([name, { required, multiple }]) {
  const word = name.toUpperCase() + (multiple ? '...' : '');
  return required ? word : `[${word}]`;
}

function documentsOf(id) {
  return (jsonDocuments[id] ?? []).flatMap(({ when, schema, isLine }) => [
    `${code('--json')} prints${when ? ` ${when}` : ''}${isLine ? ` (${isLine})` : ''}:`,
    documentTable(schema),
  ]);
}

const fenced = (language, lines) => `\`\`\`${language}\n${lines.join('\n')}\n\`\`\``;

function commandPart(bin, command) {
  const { id, aliases, args, summary, description = '', examples = [] } = command;
  const own = ownFlags(command);
  const words = [bin, typed(command), ...Object.entries(args).map(argumentWord), '[FLAG...]'];
  return [
    `#### ${typed(command)}`,
    `${filled(summary, bin, command)}. ${filled(description, bin, command)}`,
    ...(aliases.length ? [`Also called ${aliases.map(code).join(', ')}.`] : []),
    fenced('text', [words.join(' ')]),
    fenced(
      'sh',
      examples.map((each) => filled(each, bin, command)),
    ),
    ...(Object.keys(args).length
      ? [
          table(
            ['argument', 'what it is'],
            Object.entries(args).map((arg) => [code(argumentWord(arg)), cell(arg[1].description)]),
          ),
        ]
      : []),
    ...(own.length ? [flagTable(own)] : []),
    ...documentsOf(id),
  ];
}

/**
 * The page's text.
 * @param manifest what oclif wrote about the commands
 * @param name what package.json calls the program
 */
export function cliPage(manifest, { name }) {
  const commands = commandsOf(manifest);
  return `${[
    intro,
    '## Flags of several commands',
    'Every command has `-h`, `--help`. Every command but `serve` has `--json`, and every command that talks to a server has the others.',
    flagTable(sharedFlags(commands)),
    '## Environment',
    table(
      ['variable', 'what it is'],
      [
        ...variablesOf(commands).map(([variable, flag]) => [
          code(variable),
          `The value of ${code(`--${flag}`)}`,
        ]),
        [
          code('NO_COLOR'),
          'Where it is set, nothing is written in colour; `FORCE_COLOR` writes in colour everywhere',
        ],
        [code('CI'), 'Where it is set, no progress is drawn'],
        [
          `${code('HTTPS_PROXY')}, ${code('HTTP_PROXY')}, ${code('NO_PROXY')}`,
          'The proxy that a server is reached through, and the servers without one; in lower case as well',
        ],
        [
          code('XDG_CONFIG_HOME'),
          `Where \`${name}/profiles.json\` is, which \`login\` writes; by default \`~/.config\``,
        ],
        [
          code('XDG_DATA_HOME'),
          `Where \`${name}/serve\` is, the data directory of \`serve\` without \`--data-dir\`; by default \`~/.local/share\``,
        ],
      ],
    ),
    '## Exit codes',
    table(
      ['code', 'meaning'],
      Object.entries(exitCodes).map(([kind, number]) => [number, exitCodeMeanings[kind]]),
    ),
    '## Where results go',
    `A result is saved as \`${resultName}\` and extracted beside it. Without \`--output\` that is \`${defaultOutput}\` or, if it has ` +
      `files, the first of \`${defaultOutput}-2\`, \`${defaultOutput}-3\` and so on that has none. A directory that \`--output\` ` +
      'names must be empty or new: this is checked before anything is sent, and `--force` writes into it all the same, ' +
      'unless a file that is sent is in it, which a result of the same name would replace. If it ' +
      'has got files by the time the result comes, a numbered directory beside it is taken. A result is downloaded and extracted in a ' +
      'private directory, and moved to its place when it is complete, so that two are never mixed. `--output -` writes the zip to stdout, ' +
      'and the log to stderr.',
    '## JSON',
    json,
    errorTable(errorDocument),
    '## Commands',
    ...groupsOf(manifest).flatMap(([title, members]) => [
      `### ${title}`,
      ...members.flatMap((command) => commandPart(name, command)),
    ]),
  ].join('\n\n')}\n`;
}
