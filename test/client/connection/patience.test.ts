import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { leftText, progressOf } from '../../../src/client/connection/job-words.js';
import { backoff, Patience, pause, untilAnswered } from '../../../src/client/connection/patience.js';
import { HttpError, Interrupted, TransportError, type TransportFault } from '../../../src/client/errors.js';
import { showMonotonicTime } from '../../support/monotonic-time.js';

/** A clock that a test moves, and a patience that says what it waits for. */
function waits(seconds: number, signal?: AbortSignal) {
  const told: string[] = [];
  const clock = { now: 0 };
  showMonotonicTime(() => clock.now);
  const patience = new Patience(seconds, signal, {
    note: (text) => told.push(`note: ${text}`),
    waiting: (what) => told.push(`${what}`),
  });
  return { patience, told, clock };
}

describe('the wait for an unreachable server', () => {
  test('The wait for an unreachable server is noted once for each outage, and shows the time left', async () => {
    const { patience, told, clock } = waits(100);
    await patience.after(new Error('Away'), 1);
    clock.now = 9001;
    await patience.after(new Error('Still away'), 1);
    expect(told).toEqual([
      'note: Away; trying again for another 1 s',
      'Trying again for another 1 s: Away',
      'Trying again for another 1 s: Still away',
    ]);
    told.length = 0;
    expect([patience.renew(), patience.renew()]).toEqual([true, false]);
    expect(told).toEqual(['null']);
    await patience.after(new Error('Away again'), 1);
    expect(told[1]).toBe('note: Away again; trying again for another 1 s');
  });

  test.each([
    [90, '90 s'],
    [91, '2 min'],
    [600, '10 min'],
    [0.5, '1 s'],
  ])('A wait of %d seconds is described as %s', (seconds, words) => {
    expect(new Patience(seconds, undefined).words).toBe(words);
  });

  test('The wait for an unreachable server ends with the error when its own time or that of the caller is over', async () => {
    const { patience, clock } = waits(10);
    const error = new Error('Away');
    await expect(patience.after(error, 0)).rejects.toBe(error);
    clock.now = 10_000;
    await expect(patience.after(error)).rejects.toBe(error);
    patience.renew();
    await patience.after(error, 1);
  });

  test('The wait for an unreachable server ends on an interruption, even an earlier one', async () => {
    const controller = new AbortController();
    const { patience, told } = waits(10, controller.signal);
    const ended = expect(patience.after(new Error('Away'))).rejects.toMatchObject({ name: 'Interrupted' });
    controller.abort(new Interrupted('SIGINT'));
    await ended;
    told.length = 0;
    await expect(patience.after(new Error('Away'))).rejects.toBe(controller.signal.reason);
    expect(told).toEqual([]);
  });

  test('The delay between attempts grows from a quarter of a second to ten seconds, and varies', () => {
    const spy = vi.spyOn(Math, 'random').mockReturnValue(0.5);
    onTestFinished(() => spy.mockRestore());
    expect([0, 1, 2, 6, 1000].map((attempt) => backoff(attempt))).toEqual([250, 500, 1000, 10_000, 10_000]);
    spy.mockReturnValue(0);
    expect(backoff(1, 100, 500)).toBe(150);
  });
});

test('A pause ends with the reason of its signal', async () => {
  const reason = new Error('stop');
  await expect(pause(60_000, AbortSignal.abort(reason))).rejects.toBe(reason);
});

describe('a repeatable request', () => {
  const cut = (fault: TransportFault) => new TransportError(fault, fault);
  const page = new HttpError(502, 'A page', null, true);

  /** Asks a server that answers with these errors, and then. */
  async function ask(errors: readonly Error[], isMet = true) {
    const renewed: unknown[] = [];
    const { patience } = waits(100);
    const after = vi.spyOn(patience, 'after').mockImplementation(async (error, limit) => {
      renewed.push([error.message, limit]);
    });
    const asked: boolean[] = [];
    const left = [...errors];
    const answer = await untilAnswered(
      { isMet },
      patience,
      async (mayBeDone) => {
        asked.push(mayBeDone);
        const error = left.shift();
        if (error) throw error;
        return 'answer';
      },
      () => 7,
    ).catch((error: Error) => error);
    after.mockRestore();
    return { answer, asked, renewed };
  }

  test('A repeated request knows whether an earlier one may have been carried out', async () => {
    expect(await ask([cut('unreached'), page, cut('timeout'), cut('unreached')])).toEqual({
      answer: 'answer',
      asked: [false, false, false, true, true],
      renewed: [
        ['unreached', 7],
        ['A page', 7],
        ['timeout', 7],
        ['unreached', 7],
      ],
    });
    expect((await ask([cut('broken')])).asked).toEqual([false, true]);
  });

  test.each([
    ['a refusal', new HttpError(404, 'No', null)],
    ['a busy server', new HttpError(503, 'No GPU', null)],
    ['a certificate that is not trusted', cut('unusable')],
    ['a page that is no gateway', new HttpError(404, 'A page', null, true)],
  ])('A repeatable request ends with %s', async (_, error) => {
    expect(await ask([error])).toEqual({ answer: error, asked: [false], renewed: [] });
  });

  test('A request is not repeated to a server that was never reached, unless its connections are cut', async () => {
    expect((await ask([cut('unreached')], false)).asked).toEqual([false]);
    const cuts = Array.from({ length: 9 }, () => cut('broken'));
    const { answer, asked } = await ask(cuts, false);
    expect([(answer as Error).message, asked.length]).toEqual(['broken', 5]);
  });

  test('An answer to a repeated request ends the outage', async () => {
    const { patience, told } = waits(100);
    await patience.after(new Error('Away'), 1);
    await untilAnswered({ isMet: true }, patience, async () => 1);
    expect([told.at(-1), patience.renew()]).toEqual(['null', false]);
  });
});

test('A job that has not ended says what it waits for', () => {
  expect(progressOf({ job_id: 'ab', status: 'running', queue_position: 0, waiting_for: null })).toBe(
    'Job ab is running; waiting for its end',
  );
  expect(progressOf({ job_id: 'ab', status: 'waiting', queue_position: 3, waiting_for: 'GPU\n0' })).toBe(
    'Job ab is waiting for GPU\\x0a0, 3 in the queue; waiting for its end',
  );
  expect([0, 1, 999, 1000].map(leftText)).toEqual(['0 files', '1 file', '999 files', 'at least 1000 files']);
});
