import { randomBytes } from 'node:crypto';
import { type FileHandle, open, readFile } from 'node:fs/promises';
import { constants } from 'node:os';
import path from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import type { Connection } from '../../../src/client/connection/index.js';
import type { ClientError } from '../../../src/client/errors.js';
import { download, fileSink, type Sink, streamSink } from '../../../src/client/result/download.js';
import { type Handler, ScriptedServer } from '../../support/scripted-server.js';
import { temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';
import { connectTo, memoryReporter } from '../support/connect.js';

const content = randomBytes(300_000);
const other = randomBytes(200_000);

/** Resolves when the download under test has written its first piece. */
let begun: Promise<void>;
let begin = () => {};
/** Where the download under test writes its next byte. */
let position = 0;

function renewBegun(): void {
  begun = new Promise((resolve) => {
    begin = resolve;
  });
}

/** A sink whose writes set `position` and resolve `begun`. It keeps the sizes with which a download begins. */
function watched(sink: Sink, sizes: number[] = []): Sink {
  const seek = (offset: number, total: number) => {
    position = offset;
    if (offset === 0) sizes.push(total);
    return sink.seek(offset, total);
  };
  const write = async (chunk: Buffer) => {
    const taken = await sink.write(chunk);
    position += chunk.length;
    begin();
    return taken;
  };
  return { seek, write };
}

/** Sends the first `until` of `bytes`, and cuts the connection after the client has written some of them. */
function cutAt(bytes: Buffer, until: number, etag: string | null): Handler {
  return async (_, response) => {
    renewBegun();
    response.writeHead(200, { 'content-length': bytes.length, ...(etag ? { etag } : {}) });
    response.write(bytes.subarray(0, until));
    await begun;
    response.destroy();
  };
}

const whole =
  (bytes: Buffer, etag: string): Handler =>
  (_, response) =>
    void response.writeHead(200, { 'content-length': bytes.length, etag }).end(bytes);

const rest =
  (bytes: Buffer, etag: string, shift = 0): Handler =>
  ({ headers }, response) => {
    const from = Number(/bytes=(\d+)-/.exec(headers.range ?? '')?.[1]) + shift;
    response.writeHead(206, {
      'content-length': bytes.length - from,
      'content-range': `bytes ${from}-${bytes.length - 1}/${bytes.length}`,
      etag,
    });
    response.end(bytes.subarray(from));
  };

async function downloadFrom(
  connection: Connection,
  sink: Sink,
  reporter: Parameters<typeof download>[4] = memoryReporter(),
): Promise<number | null> {
  const request = (headers = {}) => connection.send('/', { headers });
  return download(connection, await request(), request, sink, reporter);
}

const checkRoom = async (): Promise<void> => {};

/** Downloads from a server that answers like this, request by request. */
async function fetchAll(...handlers: Handler[]) {
  const remaining = [...handlers];
  const sizes: number[] = [];
  const moves: [number, number][] = [];
  const told: (string | null)[] = [];
  const reporter = {
    note: (text: string) => told.push(text),
    waiting: (text: string | null) => told.push(text),
    progress: (_: unknown, ...move: [number, number]) => moves.push(move),
  };
  await using directory = await temporary();
  await using server = await ScriptedServer.start(async (...request) => {
    await (remaining.shift() ?? ((_, response) => void response.writeHead(404).end()))(...request);
  });
  await using connection = connectTo(server.url);
  const target = path.join(directory.path, 'file');
  const file = await open(target, 'wx');
  try {
    const sink = fileSink(file, target, 'run it again', checkRoom);
    const bytes = await downloadFrom(connection, watched(sink, sizes), reporter);
    const ranges = server.received.map(({ headers }) => headers.range);
    return {
      bytes,
      ranges,
      sizes,
      moves,
      told: told.map((text) =>
        text === null ? null : text.replaceAll(server.url, 'SERVER').replace(/another \d+ s/, 'another N s'),
      ),
      saved: await readFile(target),
      ifRange: server.received.map((r) => r.headers['if-range']),
    };
  } finally {
    await file.close();
  }
}

describe('a download', () => {
  test('A download arrives unchanged', async () => {
    const { bytes, saved, sizes, moves } = await fetchAll(whole(content, '"a"'));
    expect(bytes).toBe(content.length);
    expect(saved.equals(content)).toBe(true);
    expect([sizes, moves.at(-1)]).toEqual([[content.length], [content.length, content.length]]);
  });

  test('A download that breaks continues where it stopped if it is still the same file', async () => {
    const { saved, ranges, ifRange, sizes, moves } = await fetchAll(
      cutAt(content, 100_000, '"a"'),
      rest(content, '"a"'),
    );
    expect(saved.equals(content)).toBe(true);
    // The size of all of it, also of the part that is left.
    expect([sizes, new Set(moves.map(([, total]) => total))]).toEqual([
      [content.length],
      new Set([content.length]),
    ]);
    expect(ranges[1]).toMatch(/^bytes=[1-9]\d*-$/);
    expect(ifRange).toEqual([undefined, '"a"']);
  });

  test('A download that keeps breaking continues as long as it makes progress, and each outage is reported', async () => {
    const step = 40_000;
    const cut: Handler = async ({ headers }, response) => {
      const from = Number(/bytes=(\d+)-/.exec(headers.range ?? 'bytes=0-')?.[1]);
      const range = `bytes ${from}-${content.length - 1}/${content.length}`;
      const part = content.subarray(from, from + step);
      renewBegun();
      response.writeHead(from > 0 ? 206 : 200, {
        ...(from > 0 ? { 'content-range': range } : {}),
        'content-length': content.length - from,
        etag: '"a"',
      });
      response.write(part);
      await begun;
      response.destroy();
    };
    const { saved, told } = await fetchAll(...Array(7).fill(cut), rest(content, '"a"'));
    expect(saved.equals(content)).toBe(true);
    expect(told.filter((each) => each?.includes('broke: ') && !each.startsWith('Trying'))).toHaveLength(7);
  });

  test('A download is complete with its last byte, however its connection ends', async () => {
    const allAndCut: Handler = async ({ headers }, response) => {
      const from = Number(/bytes=(\d+)-/.exec(headers.range ?? '')?.[1]);
      const range = `bytes ${from}-${content.length - 1}/${content.length}`;
      response.writeHead(206, { 'content-range': range, etag: '"a"' });
      // In chunks, without the one that ends them.
      response.write(content.subarray(from));
      await until('the client has written the last byte', () => position === content.length);
      response.destroy();
    };
    const { bytes, saved, ranges } = await fetchAll(cutAt(content, 100_000, '"a"'), allAndCut);
    expect(saved.equals(content)).toBe(true);
    expect([bytes, ranges.length]).toEqual([content.length, 2]);
  });

  test('A download starts over if the file changed meanwhile', async () => {
    const { saved, sizes, moves } = await fetchAll(cutAt(content, 250_000, '"a"'), whole(other, '"b"'));
    expect(saved.equals(other)).toBe(true);
    expect([sizes, moves.at(-1)]).toEqual([
      [content.length, other.length],
      [other.length, other.length],
    ]);
  });

  test('A download rejects a part of another file, or from another position', async () => {
    const changed = await fetchAll(cutAt(content, 100_000, '"a"'), rest(other, '"b"'), whole(other, '"b"'));
    expect(changed.saved.equals(other)).toBe(true);
    const shifted = await fetchAll(
      cutAt(content, 100_000, '"a"'),
      rest(content, '"a"', 5),
      whole(content, '"a"'),
    );
    expect(shifted.saved.equals(content)).toBe(true);
  });

  test('A download starts over if the server cannot tell whether it is the same file', async () => {
    const { saved, ranges } = await fetchAll(cutAt(content, 100_000, null), whole(content, '"a"'));
    expect(saved.equals(content)).toBe(true);
    expect(ranges).toEqual([undefined, undefined]);
    const weak = await fetchAll(cutAt(content, 100_000, 'W/"a"'), whole(content, '"a"'));
    expect(weak.ranges).toEqual([undefined, undefined]);
  });

  test('A download starts over if its range is refused, and reports what it waits for until the first bytes arrive', async () => {
    const refuse: Handler = (_, response) => void response.writeHead(416).end();
    const { saved, ranges, told } = await fetchAll(
      cutAt(content, 100_000, '"a"'),
      refuse,
      whole(other, '"b"'),
    );
    expect(saved.equals(other)).toBe(true);
    expect(ranges).toEqual([undefined, expect.any(String), undefined]);
    expect(told).toEqual([
      expect.stringMatching(/^The connection to SERVER .*; trying again for another N s$/),
      expect.stringMatching(/^Trying again for another N s: The connection to SERVER .*$/),
      null,
      'Trying again for another N s: SERVER cannot continue the download',
      null,
      null,
    ]);
  });

  test('A download that has started over continues with the tag of the new file', async () => {
    const { saved, ifRange } = await fetchAll(
      cutAt(content, 100_000, '"a"'),
      cutAt(other, 100_000, '"b"'),
      rest(other, '"b"'),
    );
    expect([saved.equals(other), ifRange]).toEqual([true, [undefined, '"a"', '"b"']]);
  });

  test.each([
    ['bytes FROM-299999/300000, more', 206, 3],
    ['all bytes FROM-299999/300000', 206, 3],
    ['bytes FROM-299999/300000', 200, 2],
  ])('A download refuses a part with the range %j and the status %i', async (range, status, requests) => {
    const part: Handler = ({ headers }, response) => {
      const from = /bytes=(\d+)-/.exec(headers.range ?? '')?.[1] ?? '0';
      const given = { etag: '"a"', 'content-range': range.replace('FROM', from) };
      if (status === 200)
        response.writeHead(status, { ...given, 'content-length': content.length }).end(content);
      else response.writeHead(status, given).end(content.subarray(Number(from)));
    };
    const { saved, ranges } = await fetchAll(cutAt(content, 100_000, '"a"'), part, whole(content, '"a"'));
    expect([saved.equals(content), ranges.length]).toEqual([true, requests]);
  });

  test('A download refuses a part that it did not request', async () => {
    const part: Handler = (_, response) =>
      void response
        .writeHead(206, { 'content-range': `bytes 0-99999/${content.length}` })
        .end(content.subarray(0, 100_000));
    const { saved, ranges } = await fetchAll(part, whole(content, '"a"'));
    expect([saved.equals(content), ranges]).toEqual([true, [undefined, undefined]]);
  });

  test('A download of unknown size is complete at its end, unless it breaks before it begins', async () => {
    const unstated: Handler = (_, response) => void response.writeHead(200).end(other);
    const broken: Handler = (_, response) => {
      response.writeHead(200).flushHeaders();
      setImmediate(() => response.destroy());
    };
    const { bytes, saved, sizes, moves } = await fetchAll(broken, unstated);
    expect([bytes, saved.equals(other)]).toEqual([other.length, true]);
    expect([sizes, moves.at(-1)]).toEqual([
      [0, 0],
      [other.length, 0],
    ]);
  });

  test('A download that ends before its last byte is resumed', async () => {
    const short: Handler = ({ headers }, response) => {
      const from = Number(/bytes=(\d+)-/.exec(headers.range ?? '')?.[1]);
      const range = `bytes ${from}-${content.length - 1}/${content.length}`;
      response.writeHead(206, { 'content-range': range, etag: '"a"' }).end(content.subarray(from, 250_000));
    };
    const steps = [cutAt(content, 100_000, '"a"'), short, rest(content, '"a"')];
    const { saved, ranges, told } = await fetchAll(...steps);
    expect([saved.equals(content), ranges[2]]).toEqual([true, 'bytes=250000-']);
    expect(told).toContain('The download ended after 250000 of 300000 bytes; trying again for another N s');
  });

  test('A download into a pipe can continue, but cannot start over', async () => {
    const answers = [
      [cutAt(content, 100_000, '"a"'), rest(content, '"a"')],
      [cutAt(content, 100_000, '"a"'), whole(other, '"b"')],
    ];
    const ends: unknown[] = [];
    for (const remaining of answers) {
      await using server = await ScriptedServer.start((...request) => remaining.shift()?.(...request));
      await using connection = connectTo(server.url);
      const pipe = new PassThrough();
      const read = buffer(pipe);
      const done = downloadFrom(connection, watched(streamSink(pipe)));
      await done.then(
        async () => {
          pipe.end();
          ends.push((await read).equals(content));
        },
        (error: ClientError) => ends.push([error.message, error.exitCode]),
      );
    }
    expect(ends).toEqual([true, ['The download was interrupted and cannot continue; start it again', 5]]);
  });

  test('A download ends if repeated attempts make no progress', async () => {
    const begun = { count: 0 };
    await using server = await ScriptedServer.start((_, response) => {
      begun.count += 1;
      response.writeHead(200, { 'content-length': 1000 });
      response.write('a', () => setImmediate(() => response.destroy()));
    });
    await using connection = connectTo(server.url);
    const sink: Sink = { seek: async () => true, write: async () => true };
    const end = downloadFrom(connection, sink);
    await expect(end).rejects.toMatchObject({ fault: 'broken' });
    expect(begun.count).toBeLessThan(10);
  });

  test('A download sends back the longest ETag', async () => {
    const etag = `"${'!#~'.repeat(66)}xx"`;
    const { ifRange } = await fetchAll(cutAt(content, 100_000, etag), rest(content, etag));
    expect(ifRange).toEqual([undefined, etag]);
  });

  test.each([['"ä"'], ['"a" "b"'], ['"a b"'], [`"${'x'.repeat(201)}"`], ['a']])(
    'A download does not send back an invalid ETag: %j',
    async (etag) => {
      const { ranges, saved } = await fetchAll(cutAt(content, 100_000, etag), whole(content, '"a"'));
      expect(ranges).toEqual([undefined, undefined]);
      expect(saved.equals(content)).toBe(true);
    },
  );

  test.each([['text/html; charset=utf-8'], ['application/json'], ['TEXT/HTML']])(
    'An answer of the type %s is not accepted as a download',
    async (type) => {
      await using server = await ScriptedServer.start(
        (_, response) => void response.writeHead(200, { 'content-type': type }).end('PK'),
      );
      await using connection = connectTo(server.url);
      const sink: Sink = { seek: async () => true, write: async () => true };
      await expect(downloadFrom(connection, sink)).rejects.toThrow(
        `${server.url} sent '${type}' where an archive was asked for; is it a remote-app server?`,
      );
      expect(server.received).toHaveLength(1);
    },
  );

  test.each([['ENOSPC'], ['EACCES'], ['EROFS'], ['EDQUOT'], ['EFBIG'], ['EIO']] as const)(
    'A download ends at once with %s, and says what to do',
    async (code) => {
      await using server = await ScriptedServer.start(whole(content, '"a"'));
      await using connection = connectTo(server.url);
      const errno = -constants.errno[code];
      const fault = Object.assign(new Error(`${code}: in other words`), { code, errno });
      const file = { truncate: async () => {}, write: () => Promise.reject(fault) };
      const next = "run 'remote-app result ab'";
      const sink = fileSink(file as unknown as FileHandle, '/x/result.zip', next, checkRoom);
      const end = downloadFrom(connection, sink);
      await expect(end).rejects.toMatchObject({
        exitCode: 1,
        message: expect.stringMatching(
          new RegExp(`^Cannot write '/x/result.zip': .*\\(${code}\\); .*, then run 'remote-app result ab'$`),
        ),
      });
      expect(server.received).toHaveLength(1);
    },
  );
});

test('If a write is short, the rest is written, each byte once and in the right place', async () => {
  const bytes = Buffer.alloc(10, 1);
  const file = {
    truncate: async (length: number) => void bytes.fill(0, length),
    write: async (chunk: Buffer, from: number, length: number, at: number) => {
      const bytesWritten = Math.min(length, 3);
      chunk.copy(bytes, at, from, from + bytesWritten);
      return { bytesWritten };
    },
  };
  const sink = fileSink(file as unknown as FileHandle, 'x', 'go on', checkRoom);
  await sink.seek(0, 10);
  expect(await sink.write(Buffer.from([5, 6, 7, 8, 9]))).toBe(true);
  expect(await sink.write(Buffer.from([4, 3]))).toBe(true);
  expect([...bytes]).toEqual([5, 6, 7, 8, 9, 4, 3, 0, 0, 0]);
  expect(await sink.seek(2, 10)).toBe(true);
  await sink.write(Buffer.from([1]));
  expect([...bytes]).toEqual([5, 6, 1, 0, 0, 0, 0, 0, 0, 0]);
});

test('A pipe without a reader ends without an error, and a full one does not', async () => {
  const pipe = (code: string) =>
    new Writable({
      write: (_chunk, _encoding, done) => done(Object.assign(new Error(code), { code, errno: -1 })),
    });
  const write = (code: string) => {
    const stream = pipe(code).on('error', () => {});
    return streamSink(stream).write(Buffer.from('x'));
  };
  expect(await write('EPIPE')).toBe(false);
  await expect(write('ENOSPC')).rejects.toThrow(/^Cannot write 'stdout': .* then run the command again$/);
  const sink = streamSink(new PassThrough().resume());
  await sink.write(Buffer.from('abc'));
  expect([await sink.seek(3, 3), await sink.seek(0, 10)]).toEqual([true, false]);
});
