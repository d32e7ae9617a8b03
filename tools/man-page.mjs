/** The manual page, from the manifest of the commands and the table of exit codes. */
import { exitCodeMeanings, exitCodes } from '../dist/contract/errors.js';
import { commandsOf, filled, ownFlags, sharedFlags, spellings, typed, variablesOf } from './commands.mjs';

/** Text for roff: hyphens that can be copied, and no line that looks like a request. */
const plain = (text) =>
  text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll("'", '\\(aq')
    .replaceAll('`', '\\(ga')
    .replaceAll('^', '\\(ha')
    .replaceAll('~', '\\(ti')
    .replace(/^\./gm, '\\&.');
const bold = (text) => `\\fB${plain(text)}\\fR`;
const italic = (text) => `\\fI${plain(text)}\\fR`;

const item = (head, text) => ['.TP', head, plain(text)].join('\n');
const section = (name, ...parts) => [`.SH ${name}`, ...parts].join('\n');

const names = (flag) => spellings(flag).map(bold).join(', ');

function flagItem(flag) {
  const value = flag.type === 'option' ? ` ${italic(flag.helpValue ?? 'VALUE')}` : '';
  const repeats = flag.multiple ? ' ...' : '';
  const choices = flag.options ? [` One of: ${flag.options.join(', ')}.`] : [];
  const known = flag.default === undefined || flag.type === 'boolean' ? [] : [` [default: ${flag.default}]`];
  const environment = flag.env ? [` [env: ${flag.env}]`] : [];
  const text = [flag.summary ?? flag.description ?? '', ...choices, ...known, ...environment].join('');
  return item(names(flag) + value + repeats, text);
}

function argument([name, { required, multiple }]) {
  const word = italic(name.toUpperCase()) + (multiple ? '...' : '');
  return required ? word : `[${word}]`;
}

function commandPart(bin, command) {
  const { aliases, args, summary, description, examples = [] } = command;
  const fill = (text) => filled(text, bin, command);
  const sentences = [
    summary ? `${summary}.` : '',
    description ?? '',
    aliases.length ? `Also called ${aliases.join(', ')}.` : '',
  ];
  return [
    `.SS ${[bold(typed(command)), ...Object.entries(args).map(argument)].join(' ')}`,
    plain(fill(sentences.filter(Boolean).join(' '))),
    ...ownFlags(command).map(flagItem),
    ...(examples.length
      ? ['.PP', 'Examples:', '.PP', '.nf', ...examples.map((each) => plain(fill(each))), '.fi']
      : []),
  ].join('\n');
}

/**
 * The page's text.
 * @param manifest what oclif wrote about the commands
 * @param description what package.json says
 */
export function manPage(manifest, { name, version, description }) {
  const commands = commandsOf(manifest);
  const [first = '', ...rest] = description.split(': ');
  return `${[
    `.\\" Made from the commands by 'npm run generate'; do not edit.`,
    `.TH ${name.toUpperCase()} 1 "" "${name} ${version}" "User Commands"`,
    // No hyphens in names of variables, and no stretched lines.
    '.nh',
    '.ad l',
    section('NAME', `${plain(name)} \\- ${plain(first.charAt(0).toLowerCase() + first.slice(1))}`),
    section(
      'SYNOPSIS',
      `${bold(name)} ${italic('COMMAND')} [${italic('ARGUMENT')}...] [${italic('FLAG')}...]`,
      '.br',
      `${bold(name)} [${bold('-h')} | ${bold('--help')} | ${bold('-v')} | ${bold('--version')}]`,
    ),
    section(
      'DESCRIPTION',
      plain(
        `${rest.join(': ').replace(/^./, (letter) => letter.toUpperCase())}. '${name} serve' is the server; the commands that submit, follow and list talk to one.`,
      ),
      '.PP',
      plain(
        'A flag counts before the environment, the environment before a profile, a profile before the defaults. --profile is a flag: its server and its token replace those of the environment.',
      ),
    ),
    section('COMMANDS', ...commands.map((command) => commandPart(name, command))),
    section(
      'FLAGS OF SEVERAL COMMANDS',
      ...sharedFlags(commands).map(flagItem),
      item(`${bold('-h')}, ${bold('--help')}`, 'Show the help of the command.'),
    ),
    section(
      'EXIT STATUS',
      ...Object.entries(exitCodes).map(([code, value]) => item(bold(String(value)), exitCodeMeanings[code])),
    ),
    section(
      'ENVIRONMENT',
      ...variablesOf(commands).map(([variable, flag]) => item(bold(variable), `The value of --${flag}.`)),
      item(
        bold('NO_COLOR'),
        'Where it is set, nothing is written in colour; FORCE_COLOR writes in colour everywhere.',
      ),
      item(bold('CI'), 'Where it is set, no progress is drawn.'),
      item(
        `${bold('HTTPS_PROXY')}, ${bold('HTTP_PROXY')}, ${bold('NO_PROXY')}`,
        'The proxy that a server is reached through, and the servers without one.',
      ),
    ),
    section(
      'FILES',
      item(
        plain(`~/.config/${name}/profiles.json`),
        `Profiles that '${name} login' wrote; under XDG_CONFIG_HOME where that is set.`,
      ),
    ),
  ].join('\n')}\n`;
}
