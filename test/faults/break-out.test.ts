import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { temporary } from '../support/temporary.js';
import { ownNamespaces } from './support/namespaces.mjs';

const run = promisify(execFile);
const faults = (name: string): string => fileURLToPath(new URL(`./${name}`, import.meta.url));

/** Two processes that sleep, one in a job and one in a directory of its own, around an attack. Prints what became of them. */
const script = `cd "$1/bystander" && sleep 600 & bystander=$!
cd "$1/job" && sleep 600 & target=$!
state() {
  found=$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null)
  # A zombie has ended, and waits for this shell.
  case "$found" in '' | Z) echo gone ;; R | S | D) echo there ;; *) echo "$found" ;; esac
}
attack() {
  printf '{"deed": "%s", "content": "forged", "isWild": true%s}' "$1" "$2" > "$dir/plan"
  "$node" "$app" --inputs "$dir/plan" --output "$dir/job/Output" > /dev/null
  code=$?
  # A process that was killed ends a moment later.
  eval "\${3:-}"
  echo "$1 $code: target $(state "$target"), bystander $(state "$bystander")"
}
dir=$1 node=$2 app=$3
attack forge ""
attack kill ', "pids": ['"$target"']'
names=', "pids": ['"$target"'], "directories": ["'"$dir"'/job"]'
attack forge "$names"
attack kill "$names" 'wait "$target"'
`;

// Outside of namespaces of their own, such deeds are not even tested.
const namespaces = ownNamespaces();
if (namespaces === null) console.warn('Left out: unshare (util-linux) makes no namespaces here');

test.runIf(namespaces)('The app that tries to break out attacks only what its plan names', async () => {
  await using root = await temporary();
  for (const name of ['bystander', 'job/Output', 'job/Input'])
    mkdirSync(path.join(root.path, name), { recursive: true });
  const words = [...(namespaces ?? []), 'sh', '-c', script, 'sh'];
  const given = [root.path, process.execPath, faults('apps/intruder/main.mjs')];
  const options = { cwd: root.path, timeout: 20_000 };
  const { stdout } = await run(words[0] ?? '', [...words.slice(1), ...given], options);
  expect(stdout.trim().split('\n')).toEqual([
    'forge 2: target there, bystander there',
    'kill 2: target there, bystander there',
    'forge 9: target there, bystander there',
    'kill 0: target gone, bystander there',
  ]);
  expect(readdirSync(path.join(root.path, 'bystander'))).toEqual([]);
  expect(readdirSync(path.join(root.path, 'job'))).toContain('exit.json.reserved');
});

test.runIf(namespaces)('Without its own namespaces, the harness skips the attacks and says so', async () => {
  await using root = await temporary();
  writeFileSync(path.join(root.path, 'unshare'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
  const harness = [process.execPath, faults('run.mjs'), '--rounds', '0.1', '--only', 'break-out'];
  // The namespaces of this test, of which the harness does not know, keep the attacks in if it does not leave them out.
  const words = [...(namespaces ?? []), 'env', `PATH=${root.path}:${process.env.PATH}`, ...harness];
  const { stdout } = await run(words[0] ?? '', words.slice(1), { timeout: 20_000 });
  expect(stdout).toContain('break-out: left out: the attacks need mount and PID namespaces of their own');
  expect(stdout).not.toContain('attempts');
});
