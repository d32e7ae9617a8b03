/**
 * The scripts contain no command names. They pass the words up to the cursor to `completion --offers`, which prints `:files`,
 * `:directories`, or one value per line, each followed by a tab and a description that the shell may show. The shell filters out
 * values that do not start with the current word.
 */

/**
 * For bash, including version 3.2 on macOS. Names from a server are only compared and quoted: `compgen -W` would run commands
 * contained in them.
 */
const bash = (bin: string): string => `\
# Completion of ${bin} for bash, made by '${bin} completion bash'.

# Prints what can stand at the cursor. bash itself completes paths; 3.2 cannot be asked to.
_remote_app_offers() {
  local offers
  offers=$(command ${bin} completion --offers -- "\${words[@]:1}" 2>/dev/null </dev/null)
  case $offers in
    :files) compopt -o default 2>/dev/null || compgen -f -- "$current" ;;
    :directories) compopt -o dirnames 2>/dev/null || compgen -d -- "$current" ;;
    *) printf '%s\\n' "$offers" ;;
  esac
}

_remote_app() {
  local words=() word index glued= current typed= line
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
  current=\${words[\${#words[@]}-1]}
  [[ $current == --*=* ]] && current=\${current#*=}
  # bash keeps what it takes for the words before the current one.
  [[ $COMP_WORDBREAKS == *:* && $current == *:* ]] && typed=\${current%"\${current##*:}"}
  while IFS= read -r line; do
    line=\${line%%$'\\t'*}
    [[ $line && $line == "$current"* ]] || continue
    [[ $line =~ ^[A-Za-z0-9_./:,@%+=-]+$ ]] || printf -v line %q "$line"
    COMPREPLY+=("\${line#"$typed"}")
  done < <(_remote_app_offers)
}

complete -F _remote_app ${bin}
`;

/** For zsh: a function of `fpath`, which can also be sourced. */
const zsh = (bin: string): string => `\
#compdef ${bin}
# Completion of ${bin} for zsh, made by '${bin} completion zsh'.

_remote_app() {
  local line
  local -a lines values shown
  lines=("\${(@f)$(command ${bin} completion --offers -- "\${(@Q)words[2,CURRENT]}" 2>/dev/null </dev/null)}")
  [[ $PREFIX == --*=* ]] && compset -P 1 '*='
  case $lines[1] in
    (:files) _files; return ;;
    (:directories) _files -/; return ;;
    ('') return 1 ;;
  esac
  for line in $lines; do
    values+=("\${line%%$'\\t'*}")
    shown+=("\${line/$'\\t'/  -- }")
  done
  compadd -l -d shown -a values
}

if [[ $funcstack[1] == _remote_app ]]; then
  _remote_app "$@"
else
  compdef _remote_app ${bin}
fi
`;

const fish = (bin: string): string => `\
# Completion of ${bin} for fish, made by '${bin} completion fish'.

function __remote_app_offers
    set -l words (commandline -opc) (commandline -ct)
    set -l start (string match -r -- '^--[^=]*=' $words[-1])
    set -l offers (command ${bin} completion --offers -- $words[2..] 2>/dev/null </dev/null)
    set -l path (string replace -- "$start" '' $words[-1])
    switch "$offers[1]"
        case :files
            set offers (__fish_complete_path $path)
        case :directories
            set offers (__fish_complete_directories $path)
    end
    for each in $offers
        echo "$start$each"
    end
end

complete -c ${bin} -e
complete -c ${bin} -f -a '(__remote_app_offers)'
`;

/** The completion script of each shell, for a program of this name. */
export const scripts = { bash, zsh, fish } as const;

export type Shell = keyof typeof scripts;
