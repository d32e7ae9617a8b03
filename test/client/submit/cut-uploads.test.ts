import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Interrupted } from '../../../src/client/errors.js';
import { filesBelow } from '../../../src/files/index.js';
import { Cli } from '../../support/cli.js';
import { sharedServer, TestServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';
import { idle, inputsOf, machine, send } from '../support/send.js';

const mebibyte = 1 << 20;
const size = 16 * mebibyte;
const most = 0.9 * size;
const scan = randomBytes(size);

describe('an upload that is cut at nine tenths', () => {
  const server = sharedServer({ play: idle });

  test('An upload that is cut at nine tenths goes on where it stopped, in the same command', async () => {
    await using here = await machine(server.url, { 'ct.nii': scan });
    here.tap.cutAt(most);
    const { id, reporter } = await send(here.tap.url, [[here.at('ct.nii')]]);
    expect(here.tap.length).toBeGreaterThan(size);
    expect(here.tap.length).toBeLessThan(size + 8 * mebibyte);
    expect(reporter.notes[0]).toMatch(/broke: .*; trying again for another 30 s$/);
    expect(reporter.notes[1]).toBe(`${here.tap.url} takes the upload, which goes on`);
    expect(Object.keys(await inputsOf(server, id))).toHaveLength(1);
  });

  test('An upload that is cut at nine tenths by an interruption made no job, and goes on in the next command', async () => {
    await using here = await machine(server.url, { 'pet.nii': randomBytes(size) });
    const controller = new AbortController();
    const before = server.jobDirectories().length;
    here.tap.cutAt(most, () => {
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
    expect(reporter.notes.join()).toMatch(/pet\.nii' goes on after 1?\d\.\d MiB of 16\.0 MiB/);
  });

  test('An upload that is cut at nine tenths by the death of the client goes on in the next command', async () => {
    await using here = await machine(server.url, { 'mr.nii': randomBytes(size) });
    const cli = await Cli.create();
    onTestFinished(async () => cli.remove());
    const words = ['infer', here.at('mr.nii'), '--app', 'probe', '--detach', '--server', here.tap.url];
    const running = cli.start(words);
    here.tap.cutAt(most, () => {
      running.process.kill('SIGKILL');
      // What its kernel still holds is lost as well.
      here.tap.cut();
    });
    expect((await running.ended).signal).toBe('SIGKILL');
    here.tap.forget();
    const { code, stderr } = await cli.run(words);
    expect(code, stderr).toBe(0);
    expect(stderr).toMatch(/goes on after 1?\d\.\d MiB of 16\.0 MiB/);
    expect(here.tap.length).toBeLessThan(8 * mebibyte);
  });
});

test('An upload goes on after the death of the server at nine tenths', async () => {
  await using server = await TestServer.start({ ownProcess: true });
  await using here = await machine(server.url, { 'ct.nii': scan });
  const { port } = new URL(server.url);
  let isBack: Promise<void> | undefined;
  const stored = () =>
    filesBelow(path.join(server.dataDirectory, 'uploads'))
      .map(({ parentPath, name }) => statSync(path.join(parentPath, name)).size)
      .reduce((sum, bytes) => sum + bytes, 0);
  here.tap.cutAt(most, () => {
    // What kernel and tap still held when a server dies is sent again, which is more the busier the machine is.
    here.tap.hold();
    isBack = until('the server to store it', () => stored() > size / 2)
      .then(() => server.crash())
      .then(() => server.start(['--port', port]));
  });
  const { id } = await send(here.tap.url, [[here.at('ct.nii')]]);
  await isBack;
  expect(here.tap.length).toBeLessThan(size + 8 * mebibyte);
  await server.api.kill(id);
});
