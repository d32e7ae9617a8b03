import {
  existsSync,
  readdirSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { TestServer } from '../../support/server.js';
import { TestClock } from '../../support/test-clock.js';
import { sha256, Tus } from '../../support/tus.js';
import { until } from '../../support/until.mjs';

const root = (server: TestServer) => path.join(server.dataDirectory, 'uploads');

/** The one directory of an owner. */
function owned(server: TestServer): string {
  const [name = ''] = readdirSync(root(server)).filter((each) => each !== 'removed');
  return path.join(root(server), name);
}

test('The next server finds complete and unfinished uploads, and continues them', async () => {
  await using server = await TestServer.start();
  const tus = new Tus(server.api);
  await tus.send('whole');
  await tus.begin('begun and gone on with', 'begun');
  await server.restart();
  expect(await tus.head(sha256('whole'))).toMatchObject({ status: 200, offset: 5 });
  const name = sha256('begun and gone on with');
  expect(await tus.head(name)).toMatchObject({ status: 200, offset: 5 });
  expect(await tus.patch(name, 5, ' and gone on with')).toMatchObject({ status: 204, offset: 22 });
});

test('A large upload continues after a restart, and is verified from its first byte', async () => {
  await using server = await TestServer.start();
  const tus = new Tus(server.api);
  const content = Buffer.alloc(9 << 20, 'voxels');
  const name = sha256(content);
  const half = 5 << 20;
  await tus.begin(content, content.subarray(0, half));
  await server.restart();
  expect(await tus.patch(name, half, content.subarray(half))).toMatchObject({ offset: content.length });
  const torn = Buffer.concat([content, Buffer.from('x')]);
  await tus.begin(torn, torn.subarray(0, half));
  await server.stop();
  const file = path.join(owned(server), `${sha256(torn)}.${torn.length}.part`);
  truncateSync(file, 0);
  truncateSync(file, half);
  await server.start();
  expect(await tus.patch(sha256(torn), half, torn.subarray(half))).toMatchObject({ status: 422 });
  expect((await tus.head(sha256(torn))).status).toBe(404);
});

test('Bytes that had all arrived when the server ended are verified before they count', async () => {
  await using server = await TestServer.start();
  const tus = new Tus(server.api);
  await tus.begin('right', 'rig');
  await tus.begin('wrong', 'wro');
  await tus.begin('again', 'aga');
  await server.stop();
  const part = (content: string) => path.join(owned(server), `${sha256(content)}.5.part`);
  writeFileSync(part('right'), 'right');
  writeFileSync(part('wrong'), 'wrung');
  writeFileSync(part('again'), 'again');
  await server.start();
  expect(await tus.head(sha256('right'))).toMatchObject({ status: 200, offset: 5 });
  expect((await tus.head(sha256('wrong'))).status).toBe(404);
  // Also if it is begun again.
  expect(await tus.begin('again')).toMatchObject({ status: 201, offset: 5 });
  for (const content of ['right', 'again'])
    expect(existsSync(path.join(owned(server), sha256(content)))).toBe(true);
  expect(existsSync(part('wrong'))).toBe(false);
});

test('A torn upload is removed, and anything that is not an upload is set aside', async () => {
  await using server = await TestServer.start();
  const tus = new Tus(server.api);
  await tus.begin('too long', 'too');
  await server.stop();
  const directory = owned(server);
  const part = path.join(directory, `${sha256('too long')}.8.part`);
  writeFileSync(part, 'longer than it was to be');
  writeFileSync(path.join(directory, 'notes.txt'), 'of a person');
  await server.start();
  expect((await tus.head(sha256('too long'))).status).toBe(404);
  expect(existsSync(part)).toBe(false);
  expect(readdirSync(path.join(server.dataDirectory, 'set-aside')).join()).toMatch(/^notes\.txt\./);
});

test('If one upload has two files, the complete one is kept, whichever was used last', async () => {
  await using server = await TestServer.start();
  const tus = new Tus(server.api);
  const contents = ['older', 'newer'];
  for (const content of contents) await tus.send(content);
  await server.stop();
  const parts = contents.map((content) => path.join(owned(server), `${sha256(content)}.9.part`));
  for (const [at, part] of parts.entries()) {
    writeFileSync(part, 'part');
    const used = Date.now() / 1000 + (at === 0 ? -60 : 60);
    utimesSync(part, used, used);
  }
  await server.start();
  for (const content of contents) expect((await tus.head(sha256(content))).offset).toBe(5);
  for (const part of parts) expect(existsSync(part)).toBe(false);
});

test('An upload whose file was removed no longer exists, and can be sent again', async () => {
  await using server = await TestServer.start();
  const tus = new Tus(server.api);
  await tus.send('whole');
  await tus.begin('begun', 'beg');
  rmSync(owned(server), { recursive: true });
  for (const content of ['whole', 'begun']) expect((await tus.head(sha256(content))).status).toBe(404);
  await tus.send('whole');
  expect((await tus.head(sha256('whole'))).offset).toBe(5);
});

test('An upload is kept for its time after its last use, and no longer', async () => {
  const clock = new TestClock();
  await using server = await TestServer.start({ clock, flags: ['--keep-uploads', '1h'] });
  const tus = new Tus(server.api);
  for (const content of ['used', 'left']) await tus.send(content);
  clock.pass(1800);
  expect((await tus.head(sha256('used'))).status).toBe(200);
  clock.pass(1801);
  expect((await tus.head(sha256('left'))).status).toBe(404);
  expect((await tus.head(sha256('used'))).status).toBe(200);
  clock.pass(600);
  await until('its file is gone', () => !existsSync(path.join(owned(server), sha256('left'))));
  expect(existsSync(path.join(owned(server), sha256('used')))).toBe(true);
});

test('With a keep time of zero there are no uploads, and those of an earlier server are removed', async () => {
  await using server = await TestServer.start();
  const tus = new Tus(server.api);
  await tus.send('kept');
  await server.stop();
  await server.start(['--keep-uploads', '0']);
  expect(readdirSync(root(server))).toEqual(['removed']);
  expect((await server.api.json('/limits')).uploads).toBeNull();
  expect(await tus.begin('kept')).toMatchObject({ status: 404, detail: expect.stringContaining('form') });
  expect((await server.api.fetch('/uploads', { method: 'OPTIONS' })).status).toBe(404);
  const kept = { upload: sha256('kept'), name: 'ct.nii' };
  const submitted = await server.api.fetch('/apps/probe/infer', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ inputs: [kept, kept] }),
  });
  expect([submitted.status, await submitted.json()]).toEqual([
    409,
    expect.objectContaining({ uploads: [kept.upload] }),
  ]);
});

test('The directory of an unknown owner is removed', async () => {
  await using server = await TestServer.start();
  const tus = new Tus(server.api);
  await tus.send('mine');
  await server.stop();
  renameSync(owned(server), path.join(root(server), 'f'.repeat(32)));
  await server.start();
  expect((await tus.head(sha256('mine'))).status).toBe(404);
  await until('it is gone', () => readdirSync(root(server)).join() === 'removed');
});
