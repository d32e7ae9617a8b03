import { describe, expect, test } from 'vitest';
import type { Patience } from '../../../src/client/connection/index.js';
import { followText, NoLogText } from '../../../src/client/logs/log-text.js';
import { type Handler, json, ScriptedServer } from '../../support/scripted-server.js';
import { connectTo } from '../support/connect.js';

/** A patience that notes what is waited for, and waits for nothing. */
function patienceOf() {
  const waits: string[] = [];
  const patience = {
    after: async (error: Error) => void waits.push(error.message),
    renew: () => waits.push('renewed'),
  } as unknown as Patience;
  return { waits, patience };
}

/** Reads a log as text from a server that answers so, one request after the other. */
async function follow(
  texts: readonly Handler[],
  states: readonly object[],
  how: { since?: number; tail?: number } = {},
) {
  const [left, views] = [[...texts], [...states]];
  await using server = await ScriptedServer.start((request, response, raw) => {
    if (request.url.endsWith('/log')) return left.shift()?.(request, response, raw);
    json(response, 200, views.length > 1 ? views.shift() : views[0]);
  });
  await using connection = connectTo(server.url);
  const { waits, patience } = patienceOf();
  const events: string[] = [];
  const read = async () => {
    for await (const event of followText(connection, 'ab', {
      since: how.since ?? 0,
      tail: how.tail,
      patience,
    }))
      events.push(
        event.kind === 'line'
          ? `${event.id}${event.isRedraw ? ' redrawn' : ''}: ${event.line}`
          : event.kind === 'error'
            ? `error: ${event.message}`
            : 'done',
      );
  };
  const failure = await read().catch((error: Error) => error);
  const ranges = server.to('/jobs/ab/log').map(({ headers }) => headers.range);
  return { events, failure, waits, ranges };
}

const text =
  (body: string | Buffer, status = 200, headers: object = {}): Handler =>
  (_, response) =>
    void response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', ...headers }).end(body);
const done = { status: 'done' };

describe('a log that is read as text', () => {
  test('A log that is read as text has all its lines, including an unterminated last one once the job has ended', async () => {
    const whole = text('one\nhalf\r\nSchädel\nlast');
    const lines = ['1: one', '2 redrawn: half', '3: Schädel', '4: last', 'done'];
    expect((await follow([whole], [done])).events).toEqual(lines);
    expect((await follow([whole], [done], { since: 2 })).events).toEqual(lines.slice(2));
    expect((await follow([whole], [done], { tail: 2 })).events).toEqual(lines.slice(2));
    expect((await follow([whole], [done], { tail: 0 })).events).toEqual(['done']);
    expect((await follow([text('')], [done])).events).toEqual(['done']);
  });

  test('A log that is read as text continues from its last byte after a server fails or sends another part', async () => {
    const part = text('\nthree\n', 206, { 'content-range': 'bytes 6-12/13' });
    const other = text('x', 206, { 'content-range': 'bytes 7-7/13' });
    const failing: Handler = (_, response) => json(response, 500, { detail: 'It failed' });
    const { events, ranges, waits } = await follow(
      [text('one\nab\nthr'), failing, other, part],
      [{ status: 'running' }, { status: 'running' }, done],
    );
    expect(events).toEqual(['1: one', '2: ab', '3: three', 'done']);
    expect(ranges).toEqual([undefined, 'bytes=6-', 'bytes=6-', 'bytes=6-']);
    expect(waits).toEqual([
      'renewed',
      'It failed',
      'The server sent a different part of the log than requested',
      'renewed',
    ]);
  }, 10_000);

  test('A log that is read as text has an unterminated line cut if it is too long', async () => {
    const { events } = await follow([text(`${'a'.repeat(2 << 20)}\nb\n`)], [done]);
    expect(events.at(-1)).toBe('done');
    expect(events.filter((each) => each.endsWith('b'))).toHaveLength(1);
    expect(events.length).toBeGreaterThan(3);
  });

  test('A server without the route has no text log', async () => {
    for (const handler of [
      text('<p>', 404),
      text('{}', 200, { 'content-type': 'application/json' }),
      ((_, response) => json(response, 405, { detail: 'x' })) as Handler,
    ])
      expect((await follow([handler], [done])).failure).toBeInstanceOf(NoLogText);
    const refused: Handler = (_, response) => json(response, 403, { detail: 'Not yours' });
    expect((await follow([refused], [done])).failure).toMatchObject({ status: 403, message: 'Not yours' });
  });
});
