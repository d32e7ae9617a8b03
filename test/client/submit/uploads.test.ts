import { randomBytes } from 'node:crypto';
import { appendFileSync, readdirSync, renameSync, utimesSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { sendUpload } from '../../../src/client/submit/one-upload.js';
import { dicomFile, element } from '../../support/dicom-files.js';
import { json, ScriptedServer } from '../../support/scripted-server.js';
import { sharedServer } from '../../support/server.js';
import { plant } from '../../support/temporary.js';
import { connectTo, memoryReporter } from '../support/connect.js';
import { idle, inputsOf, machine, send } from '../support/send.js';

const mebibyte = 1 << 20;
const word = 'Quokkavale';

/** Ten slices of noise, together 1.25 MiB, whose texts have a word. */
const slices = Array.from({ length: 10 }, (_, at) =>
  Buffer.from(
    dicomFile({
      pixels: new Int16Array(randomBytes(2 * 256 * 256).buffer.slice(0, 2 * 256 * 256)),
      size: [256, 256],
      position: [0, 0, 3 * at],
      more: [
        element(0x00080060, 'CS', 'CT'),
        element(0x00080018, 'UI', `1.2.3.4.${at}`),
        element(0x00100010, 'PN', `${word}^Ada`),
        element(0x00200013, 'IS', String(at)),
      ],
    }),
  ),
);
const series = (directory: string): Record<string, Buffer> =>
  Object.fromEntries(slices.map((slice, at) => [`${directory}/${at}.dcm`, slice]));

describe('files that are sent as uploads', () => {
  const server = sharedServer({ play: idle });

  test('Files that are sent as uploads are found again: a second job sends next to nothing', async () => {
    const scan = randomBytes(8 * mebibyte);
    await using here = await machine(server.url, { 'ct.nii': scan, 'small.nii': randomBytes(900) });
    const groups = [[here.at('ct.nii')], [here.at('small.nii')]];
    const first = await send(here.tap.url, groups);
    expect(here.tap.length).toBeGreaterThan(scan.length);
    expect(first.reporter.notes.join()).not.toContain('there already');
    here.tap.forget();
    const second = await send(here.tap.url, groups);
    expect(here.tap.length).toBeLessThan(8192);
    expect(second.reporter.notes).toContain('1 of 2 files is already on the server (8.0 MiB not sent)');
    expect(second.id).not.toBe(first.id);
    expect(Object.keys(await inputsOf(server, second.id))).toHaveLength(2);
    expect(await inputsOf(server, second.id)).toEqual(await inputsOf(server, first.id));
  });

  test('Files sent as uploads are found by their content, under another name and from a machine that has stored nothing', async () => {
    await using here = await machine(server.url, { 'ct.nii': randomBytes(4 * mebibyte) });
    await send(here.tap.url, [[here.at('ct.nii')]]);
    renameSync(here.at('ct.nii'), here.at('other.nii'));
    here.tap.forget();
    const { id, reporter } = await send(here.tap.url, [[here.at('other.nii')]]);
    expect(here.tap.length).toBeLessThan(8192);
    expect(reporter.notes).toContain('1 of 1 file is already on the server (4.0 MiB not sent)');
    expect(Object.keys(await inputsOf(server, id)).join()).toContain('other.nii');
  });

  test('Files that occur twice are uploaded once', async () => {
    const scan = randomBytes(4 * mebibyte);
    await using here = await machine(server.url, { 'a.nii': scan, 'b.nii': scan });
    const { id } = await send(here.tap.url, [[here.at('a.nii')], [here.at('b.nii')]]);
    expect(here.tap.length).toBeLessThan(5 * mebibyte);
    const digests = Object.values(await inputsOf(server, id));
    expect([digests.length, new Set(digests).size]).toEqual([2, 1]);
  });

  test('Files sent as uploads are sent again if the server reports them as missing', async () => {
    await using here = await machine(server.url, {
      'ct.nii': randomBytes(2 * mebibyte),
      'small.nii': randomBytes(9000),
    });
    const groups = [[here.at('ct.nii')], [here.at('small.nii')]];
    const { id } = await send(here.tap.url, groups);
    const sent = await inputsOf(server, id);
    for (const name of Object.values(sent)) {
      const headers = { 'Tus-Resumable': '1.0.0' };
      expect((await server.api.fetch(`/uploads/${name}`, { method: 'DELETE', headers })).status).toBe(204);
    }
    here.tap.forget();
    const second = await send(here.tap.url, groups);
    expect(await inputsOf(server, second.id)).toEqual(sent);
    expect(here.tap.length).toBeGreaterThan(2 * mebibyte);
  });

  test.each([
    ['before it is sent', 'Hashing'],
    ['while it is sent', 'Uploading'],
  ])('Files that are sent as uploads are not submitted if one changes %s', async (_, phase) => {
    await using here = await machine(server.url, { 'ct.nii': randomBytes(4 * mebibyte) });
    const file = here.at('ct.nii');
    const before = server.jobDirectories().length;
    let isChanged = false;
    const progress = (what: string, done: number) => {
      if (what !== phase || done === 0 || isChanged) return;
      isChanged = true;
      appendFileSync(file, 'more');
    };
    const sent = send(here.tap.url, [[file]], { progress });
    await expect(sent).rejects.toThrow(`'${file}' changed while it was sent; send it again`);
    expect(server.jobDirectories()).toHaveLength(before);
  });
});

describe('a series that is sent as an upload', () => {
  const server = sharedServer({ play: idle });

  test('A series sent as an upload is found as a copy with other times and another order of files', async () => {
    await using here = await machine(server.url, series('ct'));
    await send(here.tap.url, [[here.at('ct')]]);
    for (const [at, slice] of [...slices.entries()].reverse()) {
      await plant(here.at('copy'), { [`ct/${at}.dcm`]: slice });
      utimesSync(here.at('copy/ct', `${at}.dcm`), at, at);
    }
    here.tap.forget();
    const { reporter } = await send(here.tap.url, [[here.at('copy/ct')]]);
    expect(here.tap.length).toBeLessThan(8192);
    expect(reporter.notes.join()).toContain('1 of 1 file is already on the server');
  });

  test('A series sent as an upload is also found if it is de-identified, and reveals nothing about the person', async () => {
    await using here = await machine(server.url, series('ct'));
    const keyIn = here.at('keys');
    const first = await send(here.tap.url, [[here.at('ct')]], { keyIn });
    expect(here.tap.length).toBeGreaterThan(mebibyte);
    expect(here.tap.sent.includes(word)).toBe(false);
    here.tap.forget();
    // With nothing that is remembered: what leaves is made anew.
    const second = await send(here.tap.url, [[here.at('ct')]], { keyIn });
    expect(here.tap.length).toBeLessThan(8192);
    expect(await inputsOf(server, second.id)).toEqual(await inputsOf(server, first.id));
    here.tap.forget();
    // Another key makes other identifiers.
    await send(here.tap.url, [[here.at('ct')]], { keyIn: here.at('other-keys') });
    expect(here.tap.length).toBeGreaterThan(mebibyte);
  });

  test('A series that is sent as an upload leaves nothing behind in the temporary directory', async () => {
    await using here = await machine(server.url, series('ct'));
    const before = readdirSync(path.dirname(here.at())).filter((name) => name.startsWith('remote-app-'));
    await send(here.tap.url, [[here.at('ct')]]);
    const after = readdirSync(path.dirname(here.at())).filter((name) => name.startsWith('remote-app-'));
    expect(after.filter((name) => !before.includes(name) && !name.includes('test'))).toEqual([]);
  });
});

test.each([
  ['writes it', 423],
  ['has moved its offset', 409],
  ['has removed it', 404],
])('An upload continues with what the server has if another request %s', async (_, status) => {
  let there: string | null = 'vol';
  const written: string[] = [];
  const asked: number[] = [];
  await using server = await ScriptedServer.start(({ method, headers, body }, response) => {
    if (method === 'PATCH' && written.push(`${headers['upload-offset']} ${body}`) === 1) {
      there = status === 404 ? null : 'volu';
      return json(response, status, { detail: 'Not now' });
    }
    if (method === 'HEAD' && there === null) return json(response, 404, { detail: 'Unknown' });
    if (method === 'POST') there = '';
    if (method === 'PATCH') there += `${body}`;
    response.writeHead(200, { 'Upload-Offset': String(there?.length), 'Upload-Length': '6' }).end();
  });
  await using connection = connectTo(server.url);
  await sendUpload(
    connection,
    { sha256: 'a'.repeat(64), size: 6, source: 'ct.nii', segments: [Buffer.from('volume')], seen: new Map() },
    {
      asksFirst: true,
      reporter: memoryReporter(),
      patience: connection.patience(),
      signal: new AbortController().signal,
      onOffset: (offset) => asked.push(offset),
      onBytes: () => {},
    },
  );
  expect(there).toBe('volume');
  expect(written).toEqual(['3 ume', status === 404 ? '0 volume' : '4 me']);
  // What the other request has written by then counts.
  expect(asked).toEqual([3, status === 404 ? 0 : 4]);
});
