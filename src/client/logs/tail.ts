import { setTimeout as delay } from 'node:timers/promises';
import type { LogEvent } from '../../contract/log-stream.js';

/** Milliseconds of silence after which a replay is taken to be over: what comes next is new. */
const quiet = 300;

/**
 * The last lines of a log, and what comes after them, from a server that does not know `tail` and replays the whole log: it
 * numbers no lines. Such a replay comes without a pause. Numbered lines are passed on: the server has left out the others.
 */
export async function* lastLines(events: AsyncIterator<LogEvent>, count: number): AsyncGenerator<LogEvent> {
  const kept: LogEvent[] = [];
  let isReplay = true;
  let next = events.next();
  let hasBegun = false;
  try {
    for (;;) {
      const timer = new AbortController();
      const silence = isReplay && hasBegun ? [delay(quiet, null, { signal: timer.signal })] : [];
      const result = await Promise.race([next, ...silence.map((each) => each.catch(() => null))]);
      timer.abort();
      if (result === null) {
        isReplay = false;
        yield* kept.splice(0);
        continue;
      }
      if (result.done) return;
      hasBegun = true;
      const event = result.value;
      next = events.next();
      // What follows is awaited in the next turn, if there is one.
      next.catch(() => {});
      if (event.kind !== 'line' || event.id !== null) isReplay = false;
      if (!isReplay) {
        yield* kept.splice(0);
        yield event;
      } else if (kept.push(event) > count) kept.shift();
    }
  } finally {
    // Not awaited: the stream may be silent, and is closed with the connection.
    events.return?.().catch(() => {});
  }
}
