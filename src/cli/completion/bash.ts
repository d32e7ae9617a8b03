import { shellQuoted as quoted } from '../../contract/index.js';
import type { CompletedCommand, Values } from './kinds.js';

/** The name of a kind of value in the script; a fixed list begins with a colon. */
const kind = (values: Values): string => (typeof values === 'string' ? values : `:${values.join(' ')}`);

/** The lines of a `case` for the flags that take values, one for each kind of value. */
function flagCases({ flags }: CompletedCommand): string[] {
  const spellings = new Map<string, string[]>();
  for (const { names, values } of flags) {
    if (values === null) continue;
    spellings.set(kind(values), [...(spellings.get(kind(values)) ?? []), ...names]);
  }
  return [...spellings].map(([values, names]) => `      ${names.join('|')}) kind=${quoted(values)} ;;`);
}

/** One branch of the `case` over the commands. */
const commandCase = (command: CompletedCommand): string =>
  [
    `    ${command.names.join('|')})`,
    `      flags=${quoted(command.flags.flatMap(({ names }) => names).join(' '))}`,
    `      argument=${quoted(command.arguments ? kind(command.arguments.values) : '')}`,
    `      repeats=${command.arguments?.repeats ? 'yes' : ''}`,
    '      case $2 in',
    ...flagCases(command),
    '      esac ;;',
  ].join('\n');

/**
 * The script for bash, including version 3.2 of macOS. A server's answers are only compared and quoted: `compgen -W`
 * would expand it, and run commands that are named in it.
 */
export const bashScript = (bin: string, commands: readonly CompletedCommand[]): string => `\
# Completion of ${bin} for bash, made by '${bin} completion bash'.

# Sets what the command $1 takes, and what can follow its flag $2.
_remote_app_describe() {
  flags= argument= repeats= kind=
  case $1 in
${commands.map(commandCase).join('\n')}
  esac
}

# Offers the lines of stdin that begin like the current word, without what follows a tab in them.
_remote_app_offer() {
  local line
  while IFS= read -r line; do
    line=\${line%%$'\\t'*}
    [[ $line == "$current"* ]] || continue
    [[ $line =~ ^[A-Za-z0-9_./:,@%+=-]+$ ]] || printf -v line %q "$line"
    COMPREPLY+=("\${line#"$typed"}")
  done
}

# Offers what a place can hold. bash itself completes files and directories; 3.2 cannot be asked to.
_remote_app_values() {
  case $1 in
    '' | anything) ;;
    :*) _remote_app_offer < <(compgen -W "\${1#:}") ;;
    files) compopt -o default 2>/dev/null || _remote_app_offer < <(compgen -f -- "$current") ;;
    directories) compopt -o dirnames 2>/dev/null || _remote_app_offer < <(compgen -d -- "$current") ;;
    *) _remote_app_offer < <(command ${bin} completion --values "$1" -- "\${words[@]:1}" 2>/dev/null </dev/null) ;;
  esac
  # A value follows what ends with '='.
  [[ \${#COMPREPLY[@]} == 1 && \${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
}

_remote_app() {
  local words=() word index glued= current typed= flag= given=0 ended= flags argument repeats kind
  COMPREPLY=()
  # bash takes words apart at '=' and ':'.
  for ((index = 0; index <= COMP_CWORD; index++)); do
    word=\${COMP_WORDS[index]}
    if ((\${#words[@]} > 1)) && [[ $glued || $word =~ ^[:=]+$ ]]; then
      words[\${#words[@]}-1]+=$word
    else
      words+=("$word")
    fi
    glued=
    [[ $word =~ ^[:=]+$ ]] && glued=yes
  done
  local last=$((\${#words[@]} - 1))
  current=\${words[last]}
  if ((last < 2)); then
    _remote_app_values ${quoted(`:${commands.map(({ names: [name] }) => name).join(' ')} -h --help -v --version`)}
    return
  fi
  for ((index = 2; index < last; index++)); do
    word=\${words[index]}
    _remote_app_describe "\${words[1]}" "$word"
    if [[ $ended ]]; then
      given=$((given + 1))
    elif [[ $word == -- ]]; then
      ended=yes
    elif [[ $kind ]]; then
      index=$((index + 1))
      ((index == last)) && flag=$word
    elif [[ $word != -* ]]; then
      given=$((given + 1))
    fi
  done
  if [[ ! $ended && ! $flag && $current == --*=* ]]; then
    flag=\${current%%=*}
    current=\${current#*=}
  fi
  # bash keeps what it takes for the words before the current one.
  [[ $COMP_WORDBREAKS == *:* && $current == *:* ]] && typed=\${current%"\${current##*:}"}
  _remote_app_describe "\${words[1]}" "$flag"
  if [[ $flag ]]; then
    _remote_app_values "$kind"
  elif [[ ! $ended && $current == -* ]]; then
    _remote_app_values ":$flags"
  elif [[ $repeats || $given == 0 ]]; then
    _remote_app_values "$argument"
  fi
}

complete -F _remote_app ${bin}
`;
