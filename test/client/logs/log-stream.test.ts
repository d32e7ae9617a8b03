import { readFileSync, statSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { FollowedLog, keepLog } from '../../../src/client/logs/keep-log.js';
import { followLog } from '../../../src/client/logs/log-stream.js';
import { logName } from '../../../src/client/output-names.js';
import { type Handler, json, ScriptedServer } from '../../support/scripted-server.js';
import { temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';
import { connectTo } from '../support/connect.js';

/**
 * What one request for the stream gets: the lines after those that the reader has, up to this one, then a text,
 * and how it ends.
 */
type Opening = { upTo?: number; send?: string | Buffer[]; end?: 'cleanly' | 'cut' } | { refuse: number };

const lines = (from: number, to: number): string =>
  Array.from(
    { length: to - from + 1 },
    (_, index) => `id: ${from + index}\ndata: line ${from + index}\n\n`,
  ).join('');

async function play(response: ServerResponse, since: number, opening: Opening): Promise<void> {
  if ('refuse' in opening) {
    json(response, opening.refuse, { detail: 'no' });
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const { upTo = 0, send = '' } = opening;
  const text = Array.isArray(send) ? send : [send];
  for (const piece of [lines(since + 1, upTo), ...text]) {
    await new Promise((resolve) => response.write(piece, resolve));
  }
  if (opening.end === 'cut') response.destroy();
  else response.end();
}

/** The number of lines that a request skips. */
const sinceOf = (url: string) => new URL(url, 'http://localhost').searchParams.get('since');

/** Follows the log of a server that behaves like this, request by request; `state` is the state of the job that it reports. */
async function follow(
  openings: Opening[],
  options: { since?: number; state?: string; persistent?: boolean; patience?: number } = {},
) {
  const remaining = [...openings];
  const handler: Handler = async (request, response) => {
    if (!request.url.includes('/logs'))
      json(response, 200, { status: options.state ?? 'running', error: 'sad' });
    else await play(response, Number(sinceOf(request.url)), remaining.shift() ?? { refuse: 404 });
  };
  await using server = await ScriptedServer.start(handler);
  const { since, persistent } = options;
  await using connection = connectTo(server.url, { patience: options.patience ?? 30 });
  const patience = connection.patience();
  const events: string[] = [];
  let failure: unknown = null;
  try {
    for await (const event of followLog(connection, 'ab', { since, persistent, patience })) {
      events.push(
        event.kind === 'line' ? event.line : event.kind === 'error' ? `error ${event.message}` : 'done',
      );
    }
  } catch (error) {
    failure = error;
  }
  const asked = server.to('/jobs/ab/logs').map(({ url }) => `since=${sinceOf(url)}`);
  return { events, failure, asked };
}

describe('A followed log', () => {
  test('A followed log yields its lines in order, then its end', async () => {
    const { events, asked } = await follow([{ send: `${lines(1, 3)}data: __DONE__\n\n` }]);
    expect(events).toEqual(['line 1', 'line 2', 'line 3', 'done']);
    expect(asked).toEqual(['since=0']);
  });

  test('A followed log continues after the last line when the connection breaks, without losing or repeating a line', async () => {
    const { events, asked } = await follow([
      { upTo: 2, send: 'id: 3\ndata: li', end: 'cut' },
      { upTo: 4, end: 'cleanly' },
      { refuse: 429 },
      { refuse: 503 },
      { upTo: 5, send: 'data: __DONE__\n\n' },
    ]);
    expect(events).toEqual(['line 1', 'line 2', 'line 3', 'line 4', 'line 5', 'done']);
    expect(asked.slice(2)).toEqual(['since=4', 'since=4', 'since=4']);
  });

  test('A followed log drops lines that a server sends again', async () => {
    const { events } = await follow([
      { send: lines(1, 3), end: 'cleanly' },
      { send: `${lines(1, 4)}data: __DONE__\n\n` },
    ]);
    expect(events).toEqual(['line 1', 'line 2', 'line 3', 'line 4', 'done']);
  });

  test('A followed log joins characters that are split across two chunks, and ignores keep-alives', async () => {
    const text = Buffer.from('id: 1\ndata: a\n\n: keepalive\n\nid: 2\ndata: Schädel\n\ndata: __DONE__\n\n');
    const cut = text.indexOf('ä') + 1;
    let arrive = () => {};
    const arrived = new Promise<void>((resolve) => {
      arrive = resolve;
    });
    await using server = await ScriptedServer.start(async (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(text.subarray(0, cut));
      await arrived;
      response.end(text.subarray(cut));
    });
    await using connection = connectTo(server.url);
    const events: string[] = [];
    for await (const event of followLog(connection, 'ab', { patience: connection.patience() })) {
      events.push(event.kind === 'line' ? event.line : event.kind);
      arrive();
    }
    expect(events).toEqual(['a', 'Schädel', 'done']);
  });

  test('A log that began with its last lines continues as text after the last line received', async () => {
    let asked = 0;
    await using server = await ScriptedServer.start(({ url }, response) => {
      if (url.includes('/logs')) {
        asked += 1;
        if (asked > 1) return json(response, 429, { detail: 'no' });
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.end('id: 2\ndata: b\n\n');
      } else if (!url.endsWith('/log')) json(response, 200, { status: 'done' });
      else response.writeHead(200, { 'content-type': 'text/plain' }).end('a\nb\nc\nd\n');
      return undefined;
    });
    await using connection = connectTo(server.url);
    const events: unknown[] = [];
    for await (const event of followLog(connection, 'ab', { tail: 1, patience: connection.patience() }))
      events.push(event.kind === 'line' ? [event.id, event.line] : event.kind);
    expect(events).toEqual([[2, 'b'], [3, 'c'], [4, 'd'], 'done']);
  });

  test('A log that is cut twice before any data arrives is assumed to have another reader, and only a job of our own is waited for', async () => {
    const mute: Opening = { send: '', end: 'cut' };
    const openings: Opening[] = [mute, mute, { send: 'data: a\n\ndata: __DONE__\n\n' }];
    const other = await follow(openings);
    expect([other.failure, other.asked.length]).toEqual([expect.objectContaining({ exitCode: 6 }), 2]);
    expect((await follow(openings, { persistent: true })).events).toEqual(['a', 'done']);
  });

  test("A followed log takes the end from the job's state if a server without line numbers just stops sending", async () => {
    const openings: Opening[] = [{ send: 'data: one\n\n' }];
    expect((await follow(openings, { state: 'done' })).events).toEqual(['one', 'done']);
    expect((await follow(openings, { state: 'error' })).events).toEqual(['one', 'error sad']);
  });

  test("A followed log asks for the job's state if a server without line numbers says only that the log has ended", async () => {
    const openings: Opening[] = [{ send: 'data: __DONE__\n\n' }];
    expect((await follow(openings, { state: 'error' })).events).toEqual(['error sad']);
    expect((await follow(openings, { state: 'done' })).events).toEqual(['done']);
    const numbered: Opening[] = [{ send: `${lines(1, 1)}data: __DONE__\n\n` }];
    expect((await follow(numbered, { state: 'error' })).events).toEqual(['line 1', 'done']);
  });

  test('A followed log of an unknown job fails at once', async () => {
    const { failure, asked } = await follow([{ refuse: 404 }]);
    expect(failure).toMatchObject({ exitCode: 2 });
    expect(asked).toHaveLength(1);
  });

  test('A followed log that another client follows fails at once, unless the job is our own', async () => {
    const openings: Opening[] = [{ refuse: 429 }, { send: 'data: __DONE__\n\n' }];
    expect((await follow(openings)).failure).toMatchObject({ exitCode: 6 });
    expect((await follow(openings, { persistent: true })).events).toEqual(['done']);
  });

  test('A followed log loses no line if a server numbers them wrongly', async () => {
    const ids = [900000000000000, 900000000000000, 2, -1];
    const send = `${ids.map((id, at) => `id: ${id}\ndata: ${at}\n\n`).join('')}data: __DONE__\n\n`;
    expect((await follow([{ send }])).events).toEqual(['0', '1', '2', '3', 'done']);
  });

  test.each([
    ['cut', 'nothing but a comment', ': keepalive\n\n'],
    ['cut', 'the same line', 'id: 1\ndata: a\n\n'],
    ['cut', 'a line without a number', 'data: a\n\n'],
    ['cleanly', 'the same line', 'id: 1\ndata: a\n\n'],
    ['cleanly', 'a line twice', 'id: 1\ndata: a\n\nid: 1\ndata: a\n\n'],
  ] as const)('Streams of logs that end %s after %s are followed again for a while', async (end, _, send) => {
    const openings: Opening[] = Array.from({ length: 1000 }, () => ({ send, end }));
    const { failure, asked } = await follow(openings, { patience: 1 });
    expect(failure).toMatchObject({ exitCode: 5 });
    expect(asked.length).toBeLessThan(20);
  });

  test('Each new line of a log renews the patience with a broken stream', async () => {
    const openings: Opening[] = [1, 2, 3].map((upTo) => ({ upTo }));
    const end: Opening = { send: 'data: __DONE__\n\n' };
    const { events } = await follow([...openings, end], { patience: 0.5 });
    expect(events).toEqual(['line 1', 'line 2', 'line 3', 'done']);
  });

  test('A log that is read as text continues after the last line if the server sends the whole text again', async () => {
    // In more than one piece.
    const known = Array.from({ length: 30_000 }, (_, at) => String(at));
    const text = known.map((each) => `${each}\n`).join('');
    let cut = () => {};
    const first = new Promise<void>((resolve) => {
      cut = resolve;
    });
    await using server = await ScriptedServer.start(async ({ url, headers }, response) => {
      if (url.includes('/logs')) json(response, 429, { detail: 'no' });
      else if (!url.endsWith('/log')) json(response, 200, { status: 'done' });
      else if (headers.range === undefined) {
        response.writeHead(200, { 'content-type': 'text/plain' }).write(text);
        await first;
        response.destroy();
      } else response.writeHead(200, { 'content-type': 'text/plain' }).end(`${text}new\n`);
    });
    await using connection = connectTo(server.url);
    const events: string[] = [];
    for await (const event of followLog(connection, 'ab', { patience: connection.patience() })) {
      events.push(event.kind === 'line' ? event.line : event.kind);
      if (events.length === known.length) cut();
    }
    expect(events).toEqual([...known, 'new', 'done']);
  });

  test.each([
    ['text/html', undefined, "'text/html', not with a log"],
    ['application/json', undefined, "'application/json', not with a log"],
    ['application/zip', undefined, "'application/zip', not with a log"],
    ['text/event-stream', 'gzip', "a log that is encoded as 'gzip'"],
  ])('A log of the type %s with the encoding %s causes a clear error', async (type, coding, what) => {
    await using server = await ScriptedServer.start((_, response) => {
      const encoded = coding ? { 'content-encoding': coding } : {};
      response.writeHead(200, { 'content-type': type, ...encoded }).end(gzipSync('data: __DONE__\n\n'));
    });
    await using connection = connectTo(server.url);
    const read = followLog(connection, 'ab', { patience: connection.patience() }).next();
    await expect(read).rejects.toMatchObject({
      message: `${server.url} answered /jobs/ab/logs with ${what}; is it a remote-app server?`,
      exitCode: 5,
    });
  });

  test('A followed log gives up if the job is gone after the connection broke', async () => {
    const { events, failure } = await follow([{ send: lines(1, 1), end: 'cleanly' }, { refuse: 410 }]);
    expect(events).toEqual(['line 1']);
    expect(failure).toMatchObject({ status: 410 });
  });
});

test('A log that is cut while it is fetched is kept as it was followed', async () => {
  await using directory = await temporary();
  const file = path.join(directory.path, logName);
  await using server = await ScriptedServer.start(async (_, response) => {
    response.writeHead(200, { 'content-type': 'text/plain' }).write('one\ntwo\nthr');
    await until('its first bytes are there', () => statSync(file).size > 0);
    response.destroy();
  });
  await using connection = connectTo(server.url);
  const followed = new FollowedLog();
  followed.push('one', false);
  expect(await keepLog(connection, 'ab', directory.path, followed)).toBe(logName);
  expect(readFileSync(file, 'utf8')).toBe('one\n');
});
