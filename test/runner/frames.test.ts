import { mkdirSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import path from 'node:path';
import { expect, test } from 'vitest';
import {
  FrameReader,
  frameKinds,
  isClosed,
  sendFrame,
  withSocketAddress,
} from '../../src/runner/protocol.js';
import { openBelow } from '../support/open-files.js';
import { temporary } from '../support/temporary.js';

const frame = (kind: string, text: string) => {
  const head = Buffer.alloc(5);
  head.write(kind, 'latin1');
  head.writeUInt32BE(Buffer.byteLength(text), 1);
  return Buffer.concat([head, Buffer.from(text)]);
};
const sent = Buffer.concat([frame('J', '{"job":"é"}'), frame('S', ''), frame('O', 'x'.repeat(300))]);
const told = (frames: ReturnType<FrameReader['push']>) =>
  frames.map(({ kind, payload }) => [kind, String(payload)]);
const all = [
  ['J', '{"job":"é"}'],
  ['S', ''],
  ['O', 'x'.repeat(300)],
];

test.for([1, 4, 5, 6, 7, 50, 1000])(
  'Messages are whole in whatever pieces they come: of %d bytes',
  (size) => {
    const reader = new FrameReader();
    const got = [];
    for (let at = 0; at < sent.length; at += size)
      got.push(...told(reader.push(sent.subarray(at, at + size))));
    expect(got).toEqual(all);
  },
);

test('A message with an impossible length is refused before it arrives', () => {
  const head = Buffer.alloc(5, 'O');
  head.writeUInt32BE((64 << 20) + 1, 1);
  expect(() => new FrameReader().push(head)).toThrow('A frame is too long');
  head.writeUInt32BE(64 << 20, 1);
  expect(new FrameReader().push(head)).toEqual([]);
});

test('A socket may lie in a directory with a name of any length, and nobody sends to one that is closed', async () => {
  await using root = await temporary();
  const directory = path.join(root.path, 'd'.repeat(120));
  mkdirSync(directory);
  const reader = new FrameReader();
  const got: unknown[] = [];
  const server = createServer((socket) => {
    socket.on('data', (chunk: Buffer) => {
      got.push(...told(reader.push(chunk)));
      socket.end();
    });
  });
  await new Promise<void>((resolve) => {
    withSocketAddress(directory, (address) => server.listen(address, resolve));
  });
  const client = withSocketAddress(directory, (address) => connect(address));
  sendFrame(client, frameKinds.leave, 'é');
  client.resume();
  await isClosed(client);
  await isClosed(client);
  expect([got, sendFrame(client, frameKinds.leave)]).toEqual([[['L', 'é']], true]);
  await new Promise((resolve) => server.close(resolve));
  expect(openBelow(root.path)).toEqual([]);
});
