import { shellQuoted as quoted } from '../../contract/index.js';
import type { CompletedCommand, CompletedFlag, Values } from './kinds.js';

/** A text inside a specification of `_arguments`. */
const plain = (text: string): string => text.replace(/[\\:[\]]/g, '\\$&');

/** The completion for a position on the command line. */
function action(values: Values): string {
  if (typeof values !== 'string') return `(${values.join(' ')})`;
  if (values === 'anything') return ' ';
  if (values === 'files') return '_files';
  return values === 'directories' ? '_files -/' : `_remote_app_values ${values}`;
}

/** The specifications of a flag, one for each spelling. A flag that does not repeat leaves the list once it is typed. */
function flagSpecs({ names, description, values, repeats }: CompletedFlag): string[] {
  const others = repeats ? '*' : `(${names.join(' ')})`;
  const end = `[${plain(description)}]${values === null ? '' : `:value:${action(values)}`}`;
  const joined = (name: string) => (values === null ? '' : name.startsWith('--') ? '=' : '+');
  return names.map((name) => quoted(`${others}${name}${joined(name)}${end}`));
}

function commandCase(command: CompletedCommand): string {
  const { names, flags, arguments: place } = command;
  const specs = flags.flatMap(flagSpecs);
  if (place) specs.push(quoted(`${place.repeats ? '*' : '1'}:value:${action(place.values)}`));
  return [
    `    (${names.join('|')})`,
    '      _arguments -s -S \\',
    `        ${specs.join(' \\\n        ')} ;;`,
  ].join('\n');
}

const described = ({ names: [name], description }: CompletedCommand): string =>
  `    ${quoted(`${name}:${description}`)}`;

/** The script for zsh: a function of `fpath`, which can also be sourced. */
export const zshScript = (bin: string, commands: readonly CompletedCommand[]): string => `\
#compdef ${bin}
# Completion of ${bin} for zsh, made by '${bin} completion zsh'.

_remote_app_commands() {
  local -a commands=(
${commands.map(described).join('\n')}
  )
  _describe command commands
}

# Offers values that ${bin} lists, with what it says about each. The last word says which; compadd takes those before it.
_remote_app_values() {
  local line
  local -a lines values shown end
  # A value follows the name of a parameter.
  [[ $argv[-1] == parameters ]] && end=(-S '')
  lines=("\${(@f)$(command ${bin} completion --values $argv[-1] -- "\${(@Q)words[1,CURRENT]}" 2>/dev/null </dev/null)}")
  for line in $lines; do
    values+=("\${line%%$'\\t'*}")
    shown+=("\${line/$'\\t'/  -- }")
  done
  compadd "\${(@)argv[1,-2]}" $end -l -d shown -a values
}

_remote_app() {
  local curcontext=$curcontext state
  local -a line
  local -A opt_args
  _arguments -C \\
    '(- *)'{-h,--help}'[Show help]' \\
    '(- *)'{-v,--version}'[Show the version]' \\
    '1:command:_remote_app_commands' \\
    '*::argument:->command' && return
  [[ $state == command ]] || return
  case $words[1] in
${commands.map(commandCase).join('\n')}
  esac
}

if [[ $funcstack[1] == _remote_app ]]; then
  _remote_app "$@"
else
  compdef _remote_app ${bin}
fi
`;
