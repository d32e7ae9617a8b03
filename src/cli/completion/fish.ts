import type { CompletedCommand, CompletedFlag, Values } from './kinds.js';

/** A text as one word of a fish script. Unlike other shells, fish interprets backslashes in single quotes. */
const quoted = (text: string): string => `'${text.replace(/[\\']/g, '\\$&')}'`;

/** The options of `complete` for a kind of value. */
function holds(values: Values): string {
  if (typeof values !== 'string') return `-a ${quoted(values.join(' '))}`;
  if (values === 'anything') return '';
  if (values === 'files') return '-F';
  return values === 'directories'
    ? `-a ${quoted('(__fish_complete_directories)')}`
    : `-a ${quoted(`(__remote_app_values ${values})`)}`;
}

const spelling = (name: string): string =>
  name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`;

function flagLine(start: string, { names, description, values }: CompletedFlag): string[] {
  const about = `-d ${quoted(description)}`;
  // '--no-x' has a line of its own, because fish takes one long name for each.
  const lines = values === null ? names.map(spelling) : [names.map(spelling).join(' ')];
  const place = values === null ? '' : ` ${values === 'files' ? '-r' : '-x'} ${holds(values)}`.trimEnd();
  return lines.map((line) => `${start} ${line}${place} ${about}`);
}

function commandLines(bin: string, command: CompletedCommand): string[] {
  const { names, flags, arguments: place } = command;
  const here = `__remote_app_is ${names.join(' ')}`;
  const start = `complete -c ${bin} -n ${quoted(here)}`;
  const taking = flags.filter(({ values }) => values !== null).flatMap((flag) => flag.names);
  const first = `${here}; and __remote_app_is_first ${taking.join(' ')}`;
  const condition = quoted(place?.repeats ? here : first);
  return [
    ...flags.flatMap((flag) => flagLine(start, flag)),
    ...(place && place.values !== 'anything'
      ? [`complete -c ${bin} -n ${condition} ${holds(place.values)}`]
      : []),
  ];
}

/** True until there is a command. */
const atCommand = `-n ${quoted('test (count (commandline -opc)) -eq 1')}`;

const nameLine = (bin: string, { names: [name], description }: CompletedCommand): string =>
  `complete -c ${bin} ${atCommand} -a ${name} -d ${quoted(description)}`;

/** The script for fish. */
export const fishScript = (bin: string, commands: readonly CompletedCommand[]): string => `\
# Completion of ${bin} for fish, made by '${bin} completion fish'.

# Whether the command is one of these.
function __remote_app_is
    set -l words (commandline -opc)
    test (count $words) -ge 2; and contains -- $words[2] $argv
end

# Whether there is no argument yet. The words given are flags whose values do not count as arguments.
function __remote_app_is_first
    set -l value no
    for word in (commandline -opc)[3..]
        if test $value = yes
            set value no
        else if contains -- $word $argv
            set value yes
        else if not string match -q -- '-*' $word
            return 1
        end
    end
end

# Values that ${bin} lists, with what it says about each after a tab.
function __remote_app_values
    set -l words (commandline -opc) (commandline -ct)
    command ${bin} completion --values $argv[1] -- $words[2..] 2>/dev/null </dev/null
end

complete -c ${bin} -e
complete -c ${bin} -f
complete -c ${bin} ${atCommand} -s h -l help -d 'Show help'
complete -c ${bin} ${atCommand} -s v -l version -d 'Show the version'
${commands.map((command) => nameLine(bin, command)).join('\n')}
${commands.flatMap((command) => commandLines(bin, command)).join('\n')}
`;
