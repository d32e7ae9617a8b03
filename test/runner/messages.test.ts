import { mkdirSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import path from 'node:path';
import { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { isClosed, onLines, onMessages, sendMessage, withSocketAddress } from '../../src/runner/protocol.js';
import { openBelow } from '../support/open-files.js';
import { temporary } from '../support/temporary.js';

test.for([1, 4, 7, 1000])('Lines are whole in whatever pieces they come: of %d bytes', async (size) => {
  const sent = Buffer.from(`{"job":"é"}\n\n${'x'.repeat(300)}\nan end without a line`);
  const pieces = Array.from({ length: Math.ceil(sent.length / size) }, (_, at) =>
    sent.subarray(at * size, (at + 1) * size),
  );
  const got: string[] = [];
  const stream = Readable.from(pieces, { objectMode: false });
  onLines(stream, (line) => got.push(line));
  await new Promise((resolve) => stream.once('end', resolve));
  expect(got).toEqual(['{"job":"é"}', '', 'x'.repeat(300)]);
});

test('A stream is destroyed whose line is too long to be a message', async () => {
  const got: number[] = [];
  const sent: number[] = [];
  const piece = Buffer.alloc(8 << 20, 'x');
  const stream = Readable.from(
    (function* () {
      yield Buffer.from('{}\n');
      for (let count = 1; count <= 20; count += 1) {
        sent.push(count);
        yield piece;
      }
    })(),
    { objectMode: false },
  );
  onLines(stream, (line) => got.push(line.length));
  await new Promise((resolve) => stream.once('close', resolve));
  expect(got).toEqual([2]);
  expect(sent.length).toBeLessThan(12);
});

test('A socket may lie in a directory with a name of any length, and nobody sends to one that is closed', async () => {
  await using root = await temporary();
  const directory = path.join(root.path, 'd'.repeat(120));
  mkdirSync(directory);
  const got: unknown[] = [];
  const server = createServer((socket) => onMessages(socket, (message) => got.push(message)));
  await new Promise<void>((resolve) => {
    withSocketAddress(directory, (address) => server.listen(address, resolve));
  });
  const client = withSocketAddress(directory, (address) => connect(address));
  sendMessage(client, { kind: 'leave' });
  // What is no message closes the connection.
  client.write('é\n');
  client.resume();
  await isClosed(client);
  await isClosed(client);
  sendMessage(client, { kind: 'leave' });
  expect(got).toEqual([{ kind: 'leave' }]);
  await new Promise((resolve) => server.close(resolve));
  expect(openBelow(root.path)).toEqual([]);
});
