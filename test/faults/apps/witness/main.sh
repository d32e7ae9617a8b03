#!/bin/sh
# Appends its begin and its end to the file that --set witness= names, prints numbered lines, writes what it was
# given into its output. The other settings: nonce, lines, pause (seconds between lines), gate (a file that each
# line waits for, with the line's number behind it), noise (KiB of output), code (how it exits).
witness=/dev/null nonce= lines=1 pause= gate= noise=0 code=0 output=. input=
previous=
for argument; do
  case $previous in
    --output) output=$argument ;;
    --inputs) input=$argument ;;
    --set)
      case ${argument%%=*} in
        witness) witness=${argument#*=} ;;
        nonce) nonce=${argument#*=} ;;
        lines) lines=${argument#*=} ;;
        pause) pause=${argument#*=} ;;
        gate) gate=${argument#*=} ;;
        noise) noise=${argument#*=} ;;
        code) code=${argument#*=} ;;
      esac ;;
  esac
  previous=$argument
done
# One small write to a file that is opened for appending is never mixed with another one.
echo "start $REMOTE_APP_JOB_ID $nonce" >> "$witness"
number=0
while [ "$number" -lt "$lines" ]; do
  number=$((number + 1))
  [ -n "$gate" ] && while [ ! -e "$gate$number" ]; do sleep 0.05; done
  echo "line $number of $lines"
  [ -n "$pause" ] && sleep "$pause"
done
cat "$input" > "$output/answer"
[ "$noise" -gt 0 ] && head -c "${noise}k" /dev/urandom > "$output/noise"
echo "end $REMOTE_APP_JOB_ID $nonce" >> "$witness"
exit "$code"
