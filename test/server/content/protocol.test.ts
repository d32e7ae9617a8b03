import { expect, test } from 'vitest';
import { sharedServer } from '../../support/server.js';
import { sha256, Tus } from '../../support/tus.js';

const server = sharedServer();
const tus = new Tus(server.api);

test('an upload is begun, asked for, gone on with, and whole', async () => {
  const content = 'the voxels of a scan';
  const name = sha256(content);
  expect((await tus.head(name)).status).toBe(404);
  const begun = await tus.begin(content);
  expect([begun.status, begun.offset, begun.headers.get('location')]).toEqual([201, 0, `uploads/${name}`]);
  expect((await tus.patch(name, 0, content.slice(0, 7))).offset).toBe(7);
  const told = await tus.head(name);
  expect([told.status, told.offset, told.headers.get('upload-length')]).toEqual([200, 7, '20']);
  expect(await tus.patch(name, 7, content.slice(7))).toMatchObject({ status: 204, offset: 20 });
  expect(await tus.begin(content, content)).toMatchObject({ status: 201, offset: 20 });
});
