/**
 * A shell script that runs ssh and ends it in time: `sh -c SCRIPT sh DIRECTORY SSH ARGUMENTS...`. Ctrl-C and a closed
 * terminal reach every program of the terminal; the tunnel must outlive them, since the command then asks the server to kill
 * its job. So ssh ignores these, and ends when descriptor 3 does, which only the command holds open: however the command ends,
 * also by SIGKILL, ssh ends after it, and the directory of its socket is removed. ssh keeps the terminal, where it
 * asks for passwords.
 */
export const keeper = `
trap '' INT HUP QUIT
directory=$1
shift
"$@" </dev/null 3<&- &
ssh=$!
trap 'kill "$ssh"' TERM
{ read -r word <&3; kill "$ssh"; } 2>/dev/null &
watcher=$!
wait "$ssh"
code=$?
kill "$watcher" 2>/dev/null
rm -rf "$directory"
exit "$code"
`;
