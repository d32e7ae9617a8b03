import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { lacks } from '../support/needs.mjs';
import { sharedServer } from '../support/server.js';

const run = promisify(execFile);
const bin = fileURLToPath(new URL('../../bin/run.js', import.meta.url));
const server = sharedServer();

/** Runs a script with `set -euo pipefail`; `remote-app` is the built program. */
async function bash(cli: Cli, script: string): Promise<{ stdout: string; stderr: string }> {
  await mkdir(path.join(cli.directory, 'scans'));
  for (const name of ['a.nii', 'b.nii', 'c.nii'])
    await writeFile(path.join(cli.directory, 'scans', name), name);
  const program = `remote-app() { "${process.execPath}" "${bin}" "$@"; }`;
  return run('bash', ['--norc', '-euo', 'pipefail', '-c', `${program}\n${script}`], {
    cwd: cli.directory,
    env: { PATH: process.env.PATH, HOME: cli.home, REMOTE_APP_SERVER: server.url },
  });
}

test.skipIf(lacks('unzip'))('A job can be detached, its log read in part, and its result piped', async () => {
  await using cli = await Cli.create();
  const script =
    'JOB=$(remote-app infer --detach ./scans --set "wait=$PWD/gate" --set lines=20000); touch gate; ' +
    'remote-app logs "$JOB" | head -1; echo "$PIPESTATUS"; ' +
    'remote-app logs "$JOB" | tee log | grep -c "^line "; tail -1 log; ' +
    'remote-app result "$JOB" -o - > r.zip && unzip -t r.zip';
  const { stdout, stderr } = await bash(cli, `set +o pipefail; ${script}`);
  expect(stdout).toMatch(/accepted: infer on probe\n0\n20000\n\[remote-app\] Result: 1 file, /);
  expect(stdout).toContain('No errors detected in compressed data of r.zip.');
  // Only the submission and the result write to stderr, not a command whose reader left.
  expect(stderr).toMatch(/^Job \w+ is kept for .*\nJob \w+ is kept until .*\n$/);
});

test('With --json a command of a pipeline prints one document', async () => {
  await using cli = await Cli.create();
  const script = `
    check() { "${process.execPath}" -e 'JSON.parse(require("fs").readFileSync(0, "utf8"))'; }
    JOB=$(remote-app infer --detach --json ./scans | sed -n 's/.*"job_id": "\\([0-9a-f]*\\)".*/\\1/p')
    remote-app logs "$JOB" --json | sed -e '1s/^/[/' -e '$!s/$/,/' -e '$s/$/]/' | check
    remote-app result "$JOB" --json | check
    echo all`;
  expect((await bash(cli, script)).stdout).toBe('all\n');
});
