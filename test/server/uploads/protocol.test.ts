import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { sharedServer } from '../../support/server.js';
import { sha256, type ToldUpload, Tus } from '../../support/tus.js';
import { until } from '../../support/until.mjs';

const server = sharedServer({ flags: ['--max-file-size', '1MiB'] });
const tus = new Tus(server.api);

/** A PATCH that the server has begun to read, and that goes on until the test ends it. */
async function openPatch(name: string, offset: number) {
  const patch = request(`${server.url}/uploads/${name}`, {
    method: 'PATCH',
    headers: {
      'Tus-Resumable': '1.0.0',
      'Upload-Offset': String(offset),
      'Content-Type': 'application/offset+octet-stream',
      Expect: '100-continue',
    },
  });
  patch.on('error', () => {});
  patch.flushHeaders();
  await once(patch, 'continue');
  return patch;
}

const offsetOf = async (name: string) => (await tus.head(name)).offset;

test('An upload can be created, queried, continued and completed', async () => {
  const content = 'the voxels of a scan';
  const name = sha256(content);
  expect((await tus.head(name)).status).toBe(404);
  const begun = await tus.begin(content);
  expect([begun.status, begun.offset, begun.headers.get('location')]).toEqual([201, 0, `uploads/${name}`]);
  expect(await tus.patch(name, 0, content.slice(0, 7))).toMatchObject({ status: 204, offset: 7 });
  const told = await tus.head(name);
  expect([told.status, told.offset, told.headers.get('upload-length')]).toEqual([200, 7, '20']);
  expect(told.headers.get('cache-control')).toBe('no-store');
  expect(Date.parse(told.headers.get('upload-expires') ?? '') - Date.now()).toBeGreaterThan(86_300_000);
  expect(await tus.begin(content, 'other bytes')).toMatchObject({ status: 201, offset: 7 });
  expect(await tus.patch(name, 7, content.slice(7))).toMatchObject({ status: 204, offset: 20 });
  expect(await tus.begin(content, content)).toMatchObject({ status: 201, offset: 20 });
  expect((await tus.remove(name)).status).toBe(204);
  expect((await tus.head(name)).status).toBe(404);
});

test('The first bytes may be sent with the creation, and an empty file is complete at once', async () => {
  expect(await tus.begin('first and second', 'first ')).toMatchObject({ status: 201, offset: 6 });
  expect(await tus.patch(sha256('first and second'), 6, 'and second')).toMatchObject({ offset: 16 });
  expect(await tus.begin('')).toMatchObject({ status: 201, offset: 0 });
});

test('OPTIONS tells what the server can do', async () => {
  const { status, headers } = await server.api.fetch('/uploads', { method: 'OPTIONS' });
  const told = ['resumable', 'version', 'extension', 'max-size', 'checksum-algorithm'].map((each) =>
    headers.get(`tus-${each}`),
  );
  const extensions = 'creation,creation-with-upload,expiration,termination,checksum';
  expect([status, ...told]).toEqual([204, '1.0.0', '1.0.0', extensions, '1048576', 'sha1,sha256']);
});

const begun = sha256('begun');
const metadata = (text: string) => ({ 'Upload-Metadata': `sha256 ${Buffer.from(text).toString('base64')}` });

const refused: Readonly<Record<string, [number, RegExp, () => Promise<ToldUpload>]>> = {
  'of another version': [
    412,
    /Tus-Resumable: 1.0.0/,
    () => tus.begin('x', 'x', { 'Tus-Resumable': '0.2.2' }),
  ],
  'without a name': [422, /SHA-256/, () => tus.begin('x', 'x', { 'Upload-Metadata': 'filename eA==' })],
  'with a name in capitals': [
    422,
    /lower-case/,
    () => tus.begin('x', 'x', metadata(sha256('x').toUpperCase())),
  ],
  'with a path as its name': [422, /SHA-256/, () => tus.begin('x', 'x', metadata(`../${'0'.repeat(61)}`))],
  'without a length': [422, /Upload-Length/, () => tus.begin('x', 'x', { 'Upload-Length': '' })],
  'with half a length': [422, /Upload-Length/, () => tus.begin('x', 'x', { 'Upload-Length': '1.5' })],
  'of more than a file may have': [
    413,
    /limit of 1.0 MiB/,
    () => tus.begin('x', 'x', { 'Upload-Length': '1048577' }),
  ],
  'of another type': [415, /octet-stream/, () => tus.begin('x', 'x', { 'Content-Type': 'text/plain' })],
  'with more bytes than its length': [413, /4 bytes, but only 3/, () => tus.begin('abc', 'abcd')],
  'to another offset': [409, /has 0 bytes, not 3/, () => tus.patch(begun, 3, 'un')],
  'to no offset': [422, /Upload-Offset/, () => tus.patch(begun, 0, 'b', { 'Upload-Offset': '' })],
  'to one that nobody has begun': [404, /begin it/, () => tus.patch(sha256('never'), 0, 'n')],
  'with an unknown checksum': [
    400,
    /sha1 or sha256/,
    () => tus.patch(begun, 0, 'b', { 'Upload-Checksum': 'md5 eA==' }),
  ],
};

test('An upload may have as many bytes as a file may', async () => {
  const most = { 'Upload-Length': '1048576' };
  expect(await tus.begin('the largest', '', most)).toMatchObject({ status: 201, offset: 0 });
});

test.for(Object.keys(refused))('What is sent %s is refused, and changes nothing', async (how) => {
  await tus.begin('begun');
  const [status, sentence, ask] = refused[how] as (typeof refused)[string];
  const told = await ask();
  expect([told.status, told.headers.get('tus-resumable')]).toEqual([status, '1.0.0']);
  expect(told.detail).toMatch(sentence);
  expect(await offsetOf(begun)).toBe(0);
});

test('Bytes that do not match the checksum sent with them are dropped', async () => {
  const content = 'checked on the way';
  const name = sha256(content);
  const sum = (text: string) => ({
    'Upload-Checksum': `sha1 ${createHash('sha1').update(text).digest('base64')}`,
  });
  await tus.begin(content);
  expect(await tus.patch(name, 0, 'chackad', sum('checked'))).toMatchObject({ status: 460 });
  expect(await offsetOf(name)).toBe(0);
  expect(await tus.patch(name, 0, 'checked', sum('checked'))).toMatchObject({ status: 204, offset: 7 });
  expect(await tus.patch(name, 7, ' on the way')).toMatchObject({ status: 204, offset: 18 });
});

test('Bytes that do not match the name of the upload never count', async () => {
  const name = sha256('right');
  expect(await tus.begin('right', 'wrong')).toMatchObject({ status: 422 });
  expect((await tus.head(name)).status).toBe(404);
  await tus.begin('right', 'wr');
  const told = await tus.patch(name, 2, 'ght');
  expect(told.detail).toMatch(new RegExp(`do not have the SHA-256 ${name}`));
  expect((await tus.head(name)).status).toBe(404);
  expect(await tus.begin('right', 'right')).toMatchObject({ status: 201, offset: 5 });
});

test('A wrong length is refused for a complete upload, and restarts an incomplete one', async () => {
  await tus.send('whole');
  expect((await tus.begin('whole', 'w', { 'Upload-Length': '9' })).detail).toMatch(/has 5 bytes/);
  await tus.begin('anew', 'an', { 'Upload-Length': '9' });
  expect(await tus.begin('anew', 'anew')).toMatchObject({ status: 201, offset: 4 });
});

test('The bytes that arrived before a body was cut are kept', async () => {
  const content = 'x'.repeat(500_000);
  const name = sha256(content);
  await tus.begin(content);
  const cut = await openPatch(name, 0);
  cut.write(content.slice(0, 400_000), () => cut.destroy());
  await until('what came is told', async () => ((await offsetOf(name)) ?? 0) > 0);
  const offset = (await offsetOf(name)) ?? 0;
  expect(await tus.patch(name, offset, content.slice(offset))).toMatchObject({
    status: 204,
    offset: 500_000,
  });
});

test('One request writes at a time, and a second request ends an idle first one', async () => {
  const content = 'one after the other';
  const name = sha256(content);
  await tus.begin(content);
  const idle = await openPatch(name, 0);
  const answered = once(idle, 'response');
  idle.write('one');
  const told = await tus.patch(name, 0, content);
  expect(told.status).toBe(423);
  expect([told.headers.get('retry-after'), (await tus.remove(name)).status]).toEqual(['1', 423]);
  const [answer] = (await answered) as [IncomingMessage];
  const detail = 'No byte of the upload arrived for 3 s';
  expect([answer.statusCode, JSON.parse(await text(answer))]).toEqual([408, { detail }]);
  idle.destroy();
  expect(await offsetOf(name)).toBe(3);
  expect(await tus.patch(name, 3, content.slice(3))).toMatchObject({ status: 204, offset: content.length });
});

test('When many requests race to send the same bytes, one writes, and the result is correct', async () => {
  const content = 'r'.repeat(300_000);
  const told = await Promise.all(Array.from({ length: 8 }, () => tus.begin(content, content)));
  for (const { status } of told) expect([201, 423]).toContain(status);
  expect(await offsetOf(sha256(content))).toBe(content.length);
});
