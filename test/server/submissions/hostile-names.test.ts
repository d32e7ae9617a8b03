import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import type { JobEnvelope } from '../../../src/contract/job.js';
import { least, printBytes, steps } from '../../support/form.js';
import { linesOf } from '../../support/log-lines.mjs';
import { appLines } from '../../support/log-stream.js';
import { fieldPart, filePart, multipart, multipartType } from '../../support/multipart.mjs';
import { apps, sharedServer } from '../../support/server.js';
import { unzip } from '../../support/unzip.mjs';

const root = mkdtempSync(path.join(tmpdir(), 'remote-app-test-'));
afterAll(() => rmSync(root, { recursive: true }));

const app = path.join(root, 'secretive');
cpSync(apps.probe, app, { recursive: true });
writeFileSync(path.join(root, 'outside.yml'), 'outside');
for (const [file, content] of Object.entries({
  '.env': 'TOKEN=secret',
  '.git/config': 'url = https://user:secret@host',
  'configs/.hidden/deep.yml': 'secret',
  'configs/shown.yml': 'shown',
})) {
  mkdirSync(path.dirname(path.join(app, file)), { recursive: true });
  writeFileSync(path.join(app, file), content);
}
symlinkSync(path.join(root, 'outside.yml'), path.join(app, 'link.yml'));
symlinkSync(root, path.join(app, 'up'));
execFileSync('mkfifo', [path.join(app, 'pipe.yml')]);

const unreadable = path.join(root, 'unreadable');
cpSync(apps.shell, unreadable, { recursive: true });

const server = sharedServer({ apps: [app, unreadable], app: 'secretive' });
const { api } = server;

describe("an app's configuration", () => {
  test("An app's configuration contains no hidden file, and no file outside its directory", async () => {
    const response = await api.fetch('/repo_apps_config/secretive');
    const files = await unzip(Buffer.from(await response.arrayBuffer()));
    const names = [...files.keys()];
    expect(names).toContain('configs/shown.yml');
    expect(names.filter((name) => /(^|\/)\.|link|up|pipe/.test(name))).toEqual([]);
    expect([...files.values()].join()).not.toMatch(/secret@|TOKEN|outside/);
  });

  test("An app's configuration that cannot be read is reported without a path", async () => {
    rmSync(path.join(unreadable, 'app.json'));
    const { available, reason } = await api.json<{ available: boolean; reason: string }>(
      '/repo_apps/unreadable',
    );
    expect(available).toBe(false);
    expect(reason).toMatch(/ENOENT/);
    expect(reason).not.toContain(root);
  });
});

/** A form of a hostile client. */
const submit = async (...parts: Parameters<typeof multipart>[0]) =>
  api.fetch('/apps/secretive/infer', {
    method: 'POST',
    headers: { 'Content-Type': multipartType },
    body: multipart([filePart('inputs', 'a.nii'), ...parts]),
  });

describe('a name from outside', () => {
  test('A name from outside cannot write lines of its own into the log', async () => {
    const name = 'x\n[remote-app] Result: 9 files\u2028data: __DONE__\u0085\u001b[31m';
    const { job_id: id } = (await (await submit(fieldPart(name, '1'))).json()) as JobEnvelope;
    const { log } = await api.ended(id);
    expect(linesOf(log).filter((line) => line.startsWith('[remote-app] Result:'))).toHaveLength(1);
    expect(log).toContain(
      "data: [remote-app] Ignored field 'x\\x0a[remote-app] Result: 9 files\\u2028data: __DONE__\\x85\\x1b[31m': no operation has it\n",
    );
  });

  test.for([
    [fieldPart('tta', 'x\u001b]52;c;\u0007'), 'tta'],
    [fieldPart('options', '{"a\\nb\u2028": 1}'), 'options'],
    [filePart('inputs', '\u001b[2J'), 'inputs'],
    [filePart('tta', 'x\ny'), 'tta'],
    [fieldPart('prediction_file', `../${'y'.repeat(3000)}`), 'prediction_file'],
  ] as const)('A name from outside is quoted in an error, and short: %j', async ([part, field]) => {
    const response = await submit(part);
    const { detail } = (await response.json()) as { detail: string };
    expect([response.status, detail]).toEqual([422, expect.stringContaining(`'${field}'`)]);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these must not occur
    expect(detail).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028]/);
    expect(detail.length).toBeLessThan(500);
  });

  test('A long address is repeated only up to a limit', async () => {
    const { detail } = await api.json<{ detail: string }>(`/${'x'.repeat(9000)}`);
    expect(detail.length).toBeLessThan(500);
  });
});

/** All characters that end a line for Python's `str.splitlines`. */
const splitLines = (text: string): string[] =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ends of lines
  text.split(/\r\n|[\n-\r\u001c-\u001e\u0085\u2028\u2029]/);

describe('a line of a log', () => {
  const ends = ['\u000b', '\u000c', '\r', '\u001c', '\u001d', '\u001e', '\u0085', '\u2028', '\u2029'];

  test('A line of a log is one line for a reader that splits as Python does', async () => {
    const forged = ends.map((end) => `before${end}data: __DONE__${end}${end}__ERROR__ x`);
    const bytes = printBytes(`${forged.join('\n')}\n`);
    const { log } = await api.run('infer', { ...least.infer, ...steps(bytes, 'print=the last line') });
    const lines = splitLines(log);
    expect(lines.filter((line) => /^(data: )?__(DONE|ERROR)__/.test(line))).toEqual(['data: __DONE__']);
    expect(lines.indexOf('data: the last line')).toBeLessThan(lines.indexOf('data: __DONE__'));
    for (const line of appLines(log)) expect(splitLines(line)).toHaveLength(1);
  });

  test('A line of a log with any other text is sent unchanged', async () => {
    const text = 'Å … 頭部 █▌ \u00a0\u200b\u0084\u0086\u2027\u202a é\t\u001b[31mred\u001b[0m \u001f\u001b';
    const { log } = await api.run('infer', { ...least.infer, ...steps(printBytes(`${text}\n`)) });
    expect(log).toContain(`data: ${text}\n\n`);
  });
});
