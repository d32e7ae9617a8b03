import { createHash, randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Interrupted } from '../../../src/client/errors.js';
import { filesBelow } from '../../../src/files/index.js';
import { Cli } from '../../support/cli.js';
import { sharedServer, TestServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';
import type { WireTap } from '../../support/wire-tap.js';
import { idle, inputsOf, machine, send } from '../support/send.js';

const mebibyte = 1 << 20;
const size = 16 * mebibyte;
const scan = randomBytes(size);

/**
 * Calls `cut` after nine tenths of a scan were sent. Bytes in the buffers of kernel and tap are lost and sent again, so the
 * tap first stops reading and waits until the server has stored most of them.
 */
function cutUpload(tap: WireTap, server: TestServer, content: Buffer, cut: () => unknown): void {
  const sha256 = createHash('sha256').update(content).digest('hex');
  const stored = () =>
    filesBelow(path.join(server.dataDirectory, 'uploads'))
      .filter(({ name }) => name.startsWith(sha256))
      .reduce((sum, { parentPath, name }) => sum + statSync(path.join(parentPath, name)).size, 0);
  tap.cutAt(0.9 * size, () => {
    tap.hold();
    void until('the server to store most of it', () => stored() > 0.75 * size).then(cut);
  });
}

describe('an upload that is cut at nine tenths', () => {
  const server = sharedServer({ play: idle });

  test('An upload cut at nine tenths continues where it stopped, in the same command', async () => {
    await using here = await machine(server.url, { 'ct.nii': scan });
    cutUpload(here.tap, server, scan, () => here.tap.cut());
    const { id, reporter } = await send(here.tap.url, [[here.at('ct.nii')]]);
    expect(here.tap.length).toBeGreaterThan(size);
    expect(here.tap.length).toBeLessThan(size + 8 * mebibyte);
    expect(reporter.notes[0]).toMatch(/broke: .*; trying again for another 30 s$/);
    expect(reporter.notes[1]).toBe(`${here.tap.url} accepts the upload again, which continues`);
    expect(Object.keys(await inputsOf(server, id))).toHaveLength(1);
  });

  test('An upload interrupted at nine tenths creates no job, and continues in the next command', async () => {
    const pet = randomBytes(size);
    await using here = await machine(server.url, { 'pet.nii': pet });
    const controller = new AbortController();
    const before = server.jobDirectories().length;
    cutUpload(here.tap, server, pet, () => {
      controller.abort(new Interrupted('SIGINT'));
      here.tap.cut();
    });
    const groups = [[here.at('pet.nii')]];
    const { signal } = controller;
    await expect(send(here.tap.url, groups, { signal })).rejects.toThrow(/^Interrupted$/);
    expect(server.jobDirectories()).toHaveLength(before);
    here.tap.forget();
    const { reporter } = await send(here.tap.url, groups);
    expect(here.tap.length).toBeLessThan(8 * mebibyte);
    expect(reporter.notes.join()).toMatch(/pet\.nii' continues after 1?\d\.\d MiB of 16\.0 MiB/);
  });

  test('An upload whose client dies at nine tenths continues in the next command', async () => {
    const mr = randomBytes(size);
    await using here = await machine(server.url, { 'mr.nii': mr });
    const cli = await Cli.create();
    onTestFinished(async () => cli.remove());
    const words = ['infer', here.at('mr.nii'), '--app', 'probe', '--detach', '--server', here.tap.url];
    const running = cli.start(words);
    cutUpload(here.tap, server, mr, () => {
      running.process.kill('SIGKILL');
      here.tap.cut();
    });
    expect((await running.ended).signal).toBe('SIGKILL');
    here.tap.forget();
    const { code, stderr } = await cli.run(words);
    expect(code, stderr).toBe(0);
    expect(stderr).toMatch(/continues after 1?\d\.\d MiB of 16\.0 MiB/);
    expect(here.tap.length).toBeLessThan(8 * mebibyte);
  });
});

test('An upload whose server dies at nine tenths continues', async () => {
  await using server = await TestServer.start({ ownProcess: true });
  await using here = await machine(server.url, { 'ct.nii': scan });
  const { port } = new URL(server.url);
  let isBack: Promise<void> | undefined;
  cutUpload(here.tap, server, scan, () => {
    isBack = server.crash().then(() => server.start(['--port', port]));
  });
  const { id } = await send(here.tap.url, [[here.at('ct.nii')]]);
  await isBack;
  expect(here.tap.length).toBeLessThan(size + 8 * mebibyte);
  await server.api.kill(id);
});
