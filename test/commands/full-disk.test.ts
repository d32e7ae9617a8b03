import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, openSync, writeFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { type Fake, fakeService, jobId } from '../support/fake-service.js';
import { zip, zipOf } from '../support/zip.mjs';

const bin = fileURLToPath(new URL('../../bin/run.js', import.meta.url));
const stored = zipOf({ 'mask.nii.gz': Buffer.alloc(300_000, 'mask') });
const small = zip([{ name: 'mask.nii', content: Buffer.alloc(300_000, 'mask'), deflated: true }]);

/** Runs a command in a shell, which limits or redirects it: `$0 "$@"` is the command. */
async function inShell(fake: Fake, script: string, ...args: string[]) {
  await using cli = await Cli.create();
  await using server = await fakeService(fake);
  const child = spawn('bash', ['-c', script, process.execPath, bin, ...args, '--server', server.url], {
    cwd: cli.directory,
    env: { PATH: process.env.PATH, HOME: cli.home, XDG_CONFIG_HOME: cli.home, XDG_CACHE_HOME: cli.home },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')]);
  const saved = await readdir(path.join(cli.directory, 'Output')).catch((): string[] => []);
  return { stderr, code, saved, asked: server.to(`/jobs/${jobId}/result`).length };
}

/** Files may have at most 64 KiB. Writing more fails as on a full disk. */
const limited = 'ulimit -f 64; exec "$0" "$@"';
/** Runs a command whose stdout is a device to which every write fails as on a full disk. */
async function onFullDevice(fake: Fake, ...args: string[]) {
  await using cli = await Cli.create();
  await using server = await fakeService(fake);
  writeFileSync(path.join(cli.directory, 'a.nii'), 'a');
  const stdout = createWriteStream('', { fd: openSync('/dev/full', 'w') });
  const stderr = new PassThrough();
  const streams = { stdin: Readable.from([]), stdout, stderr };
  const code = await cli.runOn(streams, args, { REMOTE_APP_SERVER: server.url });
  stdout.destroy();
  const asked = server.to(`/jobs/${jobId}/result`).length;
  return { stderr: await text(stderr.end()), code, asked };
}

describe.skipIf(process.platform !== 'linux')('a full disk', () => {
  test('If there is no room for a download, the error says so at once with what to do, and the server is asked once', async () => {
    const { stderr, code, saved, asked } = await inShell({ result: stored }, limited, 'result', jobId);
    expect(stderr).toMatch(
      new RegExp(
        `^Error: Cannot write '/.*/Output/result.zip': .*\\(EFBIG\\); .*, then run 'remote-app result ${jobId} --server http://127.0.0.1:\\d+'\n$`,
      ),
    );
    expect([code, saved, asked]).toEqual([1, [], 1]);
  });

  test('If there is no room for the extracted files, the archive is kept', async () => {
    const { stderr, code, saved } = await inShell({ result: small }, limited, 'result', jobId);
    expect(stderr).toMatch(/^Error: Cannot write '\/.*\/Output': .*\(EFBIG\).*\n$/);
    expect([code, saved.includes('result.zip')]).toEqual([1, true]);
  });

  test('If there is no room for the packed files, the error says so and nothing is sent', async () => {
    const script = `mkdir -p store.zarr && echo '{"zarr_format": 2, "shape": [1], "chunks": [1]}' > store.zarr/.zarray && head -c 300000 /dev/urandom > store.zarr/0; ${limited}`;
    const { stderr, code } = await inShell({}, script, 'infer', '--app', 'tissue', 'store.zarr');
    expect(stderr).toMatch(/^Error: Cannot write '.*\.zip': .*\(EFBIG\).*TMPDIR.*\n$/);
    expect(code).toBe(1);
  });

  test.each([['--detach'], ['-o', 'there']])(
    'If there is no room for what infer %s prints, the error names the job',
    async (...flags) => {
      const args = ['infer', 'a.nii', '--app', 'tissue', ...flags];
      const { stderr, code } = await onFullDevice({ lines: ['one', 'two'] }, ...args);
      expect(stderr).toMatch(
        new RegExp(`Cannot write to stdout: .*; job ${jobId} may go on: 'remote-app logs`),
      );
      expect(code).toBe(1);
    },
  );

  test.each(['--version', '--help', 'infer --help'])(
    'If there is no room for %s, the error is one sentence',
    async (args) => {
      const { stderr, code } = await onFullDevice({}, ...args.split(' '));
      expect([stderr, code]).toEqual([expect.stringMatching(/^Error: Cannot write to stdout: .*\n$/), 1]);
    },
  );

  test.each([
    ['a result', ['result', jobId, '-o', '-']],
    ['a list', ['jobs']],
    ['a document', ['jobs', '--json']],
    ['a log', ['logs', jobId]],
  ])('If there is no room for %s on stdout, the command says so and fails', async (_, args) => {
    const { stderr, code, asked } = await onFullDevice({ result: stored, lines: ['one', 'two'] }, ...args);
    expect(stderr).toMatch(
      /^Error: Cannot write (?:to stdout|'stdout'): no space left on device \(ENOSPC\).*\n$/,
    );
    expect(code).toBe(1);
    expect(asked).toBeLessThan(2);
  });
});
