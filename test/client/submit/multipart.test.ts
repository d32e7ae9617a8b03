import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, statSync } from 'node:fs';
import { truncate, utimes, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { Connection } from '../../../src/client/connection/connection.js';
import { Multipart } from '../../../src/client/submit/multipart.js';
import { type FilePart, stateOf } from '../../../src/client/submit/segments.js';
import { plant, temporary } from '../../support/temporary.js';

const part = (root: string, name: string, size: number): FilePart => ({
  field: 'inputs',
  filename: name,
  path: path.join(root, name),
  size,
});

const boundaryOf = (body: Multipart): string => body.contentType.split('boundary=')[1] ?? '';

describe('a multipart body', () => {
  test('A multipart body has exactly the expected bytes', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'ct.nii': 'volume' });
    const body = new Multipart({ tta: '4' }, [part(directory.path, 'ct.nii', 6)]);
    const boundary = boundaryOf(body);
    const expected = [
      `--${boundary}`,
      'Content-Disposition: form-data; name="tta"',
      '',
      '4',
      `--${boundary}`,
      'Content-Disposition: form-data; name="inputs"; filename="ct.nii"',
      'Content-Type: application/octet-stream',
      'remote-app-size: 6',
      '',
      'volume',
      `--${boundary}--`,
      '',
    ].join('\r\n');
    const bytes = await buffer(body.stream(() => {}));
    expect(bytes.toString()).toBe(expected);
    expect(body.length).toBe(bytes.length);
  });

  test('A multipart body can have pieces of a file in place of its content', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'ct.nii': '0123456789' });
    const pieces = [Buffer.from('head'), { start: 2, end: 5 }, Buffer.from('-'), { start: 8, end: 10 }];
    const body = new Multipart({}, [{ ...part(directory.path, 'ct.nii', 10), pieces }]);
    const bytes = await buffer(body.stream(() => {}));
    expect(bytes.toString()).toContain('remote-app-size: 10\r\n\r\nhead234-89\r\n');
    expect(body.length).toBe(bytes.length);
  });

  test('A multipart body fails if a file was replaced after its pieces were chosen', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'ct.nii': '0123456789' });
    const from = part(directory.path, 'ct.nii', 3);
    const state = stateOf(statSync(from.path));
    const body = new Multipart({}, [{ ...from, pieces: [{ start: 0, end: 3 }], state }]);
    await utimes(from.path, 1, 1);
    await expect(buffer(body.stream(() => {}))).rejects.toThrow(/changed while it was sent/);
  });

  test('Another parser reads the same fields and files from a multipart body', async () => {
    await using directory = await temporary();
    const name = 'Schädel "1"\r\n.nii';
    await plant(directory.path, { [name]: 'x' });
    const body = new Multipart({ options: '{"a":1}' }, [part(directory.path, name, 1)]);
    const bytes = new Uint8Array(await buffer(body.stream(() => {})));
    const form = await new Response(bytes, { headers: { 'content-type': body.contentType } }).formData();
    expect(form.get('options')).toBe('{"a":1}');
    expect((form.get('inputs') as File).name).toBe(name);
  });

  test('A multipart body is sent whole through a socket that is slow to take it', async () => {
    await using directory = await temporary();
    const sizes = [0, 1, 700_001, 300_000, 524_288, 5_000_000, 3, 2_000_000];
    const files = Object.fromEntries(sizes.map((size, index) => [`${index}`, randomBytes(size)]));
    await plant(directory.path, files);
    const parts = sizes.map((size, index) => part(directory.path, `${index}`, size));
    const body = new Multipart({ a: '1' }, parts);
    const server = createServer(async (request, response) => {
      const pieces: Buffer[] = [];
      for await (const piece of request) {
        pieces.push(piece as Buffer);
        await new Promise((resolve) => setImmediate(resolve));
      }
      response.end(Buffer.concat(pieces));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const connection = new Connection({
      server: `http://127.0.0.1:${port}`,
      connectTimeout: 5,
      readTimeout: 20,
      patience: 20,
    });
    try {
      const reply = await connection.send('/', {
        method: 'POST',
        headers: { 'content-length': String(body.length) },
        body: body.stream(() => {}),
      });
      const echo = new Uint8Array(await reply.body.arrayBuffer());
      const form = await new Response(echo, { headers: { 'content-type': body.contentType } }).formData();
      const received = (form.getAll('inputs') as File[]).map(async (file) =>
        Buffer.from(await file.arrayBuffer()),
      );
      const isWhole = (await Promise.all(received)).map((bytes, index) =>
        bytes.equals(files[index] as Buffer),
      );
      expect(isWhole).toEqual(sizes.map(() => true));
    } finally {
      await connection.close();
      server.close();
    }
  });

  test('A multipart body leaves no file open, whether it is sent or abandoned', async () => {
    await using directory = await temporary();
    await plant(directory.path, { sent: 'sent', a: Buffer.alloc(5_000_000) });
    const parts = [part(directory.path, 'sent', 4), part(directory.path, 'a', 5_000_000)];
    const before = readdirSync('/proc/self/fd').length;
    for await (const _ of new Multipart({ a: '1' }, parts).stream(() => {})) {
      if (readdirSync('/proc/self/fd').length > before) break;
    }
    expect(readdirSync('/proc/self/fd').length).toBe(before);
  });

  test('A multipart body can be sent again, from the beginning', async () => {
    await using directory = await temporary();
    await plant(directory.path, { a: 'aaa' });
    const body = new Multipart({}, [part(directory.path, 'a', 3)]);
    const first = await buffer(body.stream(() => {}));
    expect(await buffer(body.stream(() => {}))).toEqual(first);
  });

  test('A multipart body reports how many bytes it has handed out, to its last one', async () => {
    await using directory = await temporary();
    await plant(directory.path, { a: Buffer.alloc(3 << 20), b: '', c: 'ccc' });
    const sizes = { a: 3 << 20, b: 0, c: 3 };
    const parts = Object.entries(sizes).map(([name, size]) => part(directory.path, name, size));
    const body = new Multipart({ field: 'value' }, parts);
    const seen: number[] = [];
    let bytes = 0;
    for await (const piece of body.stream((sent) => seen.push(sent))) {
      expect(seen.at(-1) ?? 0).toBe(bytes);
      bytes += piece.length;
    }
    expect([seen.at(-1), bytes]).toEqual([body.length, body.length]);
  });

  test('A multipart body ends with an error if a file shrank after it was measured', async () => {
    await using directory = await temporary();
    await plant(directory.path, { a: 'aaa' });
    const body = new Multipart({}, [part(directory.path, 'a', 3)]);
    await truncate(path.join(directory.path, 'a'), 1);
    await expect(buffer(body.stream(() => {}))).rejects.toThrow(/changed while it was sent/);
    const large = new Multipart({}, [part(directory.path, 'a', 3_000_000)]);
    await expect(buffer(large.stream(() => {}))).rejects.toThrow(/changed while it was sent/);
  });

  test.each<[string, (file: string) => Promise<void>]>([
    ['changed in its place', (file) => writeFile(file, 'b', { flag: 'r+' })],
    ['shrank', (file) => truncate(file, 1)],
  ])('A multipart body ends with an error if a file %s while it was read', async (_how, change) => {
    await using directory = await temporary();
    await plant(directory.path, { a: 'a'.repeat(3_000_000) });
    const file = path.join(directory.path, 'a');
    const body = new Multipart({}, [part(directory.path, 'a', 3_000_000)]);
    await utimes(file, 1, 1);
    const sending = async () => {
      let pieces = 0;
      for await (const _ of body.stream(() => {})) {
        pieces += 1;
        if (pieces === 2) await change(file);
      }
    };
    await expect(sending()).rejects.toThrow(/changed while it was sent/);
  });

  test('A multipart body sends only its first piece until it is told to continue', async () => {
    const body = new Multipart({ a: '1', b: '2' }, []);
    const gate = deferred();
    const stream = body.stream(
      () => {},
      () => gate.promise,
    );
    const pieces: Buffer[] = [];
    const all = (async () => {
      for await (const piece of stream) pieces.push(piece as Buffer);
    })();
    await new Promise((resolve) => setImmediate(resolve));
    expect(Buffer.concat(pieces).toString()).not.toContain('name="b"');
    gate.resolve();
    await all;
    expect(Buffer.concat(pieces).length).toBe(body.length);
  });
});

function deferred() {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
