#!/bin/sh
# An app for remote-app. The server runs: sh main.sh infer APP --output DIR --inputs FILE... (and more flags).
set -eu

# YOUR MODEL GOES HERE: reads the volume $1 and writes its result to $2. This one copies it, and prints a parameter. A
# volume is a file, or the directory of a DICOM series or of a Zarr store.
predict() {
  printf 'threshold: %s\n' "$threshold"
  cp -R "$1" "$2"
}

# Ends the job with a sentence for the person who sent it: what is wrong with the input, and what to do.
refuse() {
  if [ -n "${REMOTE_APP_REFUSAL_FILE:-}" ]; then printf '%s\n' "$1" > "$REMOTE_APP_REFUSAL_FILE"; fi
  printf '%s\n' "$1" >&2
  exit 1
}

if [ "${1:-}" != infer ]; then refuse "This app has no operation '${1:-}'"; fi

# Values follow their flag. A path is absolute, so only a flag begins with a dash. Names may hold spaces: keep the quotes.
output=
threshold=0.5
groups=0
flag=
for word; do
  case $word in
    -*)
      flag=$word
      if [ "$flag" = --inputs ]; then groups=$((groups + 1)); fi
      ;;
    # `parameters` of app.json says what --set NAME=VALUE may be: all else is refused before the job.
    threshold=*) if [ "$flag" = --set ]; then threshold=${word#threshold=}; fi ;;
    *) if [ "$flag" = --output ]; then output=$word; fi ;;
  esac
done
if [ "$groups" -ne 1 ]; then refuse "This app takes one group of inputs, not $groups"; fi

mkdir -p "$output"
flag=
for word; do
  case $word in
    -*) flag=$word ;;
    *)
      if [ "$flag" = --inputs ]; then
        name=${word##*/}
        printf 'Case: %s\n' "$name"
        predict "$word" "$output/$name"
      fi
      ;;
  esac
done
