import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Connection, Patience } from '../../../src/client/connection/index.js';
import { HttpError, TransportError } from '../../../src/client/errors.js';
import { Attempts, RequestWatch } from '../../../src/client/submit/attempts.js';
import { memoryReporter } from '../support/connect.js';

const cut = new TransportError('broken', 'It broke');
const refused = (status: number, message = 'No', isOfProxy = false) =>
  new HttpError(status, message, null, isOfProxy);
/** Bytes that an attempt has sent, of a hundred. */
const [nothing, half, everything] = [0, 50, 100];

/** Attempts whose waits are noted, and are over at once. */
function attempts({ isMet = true, isRepeatable = true } = {}) {
  const waited: string[] = [];
  const patience = { after: async (error: Error) => void waited.push(error.message) } as unknown as Patience;
  const connection = { isMet, patience: () => patience } as unknown as Connection;
  const sent = { size: 100, isRepeatable, next: 'send it later' };
  const all = new Attempts(connection, memoryReporter(), sent, patience);
  const fails = (error: unknown, bytes: number) => {
    all.count(bytes);
    return all.after(error, bytes === everything).catch((reason: Error) => reason);
  };
  return { fails, waited };
}

describe('Attempts', () => {
  test.each([
    ['silence', new TransportError('timeout', 'x')],
    ['a certificate that is not trusted', new TransportError('unusable', 'x')],
    ['a server without GPUs', refused(503)],
    ['a refusal', refused(422)],
    ['a proxy that refuses', refused(413, 'x', true)],
    ['something else', new Error('x')],
  ])('After %s, nothing is sent again', async (_, error) => {
    const { fails, waited } = attempts();
    expect([await fails(error, nothing), waited]).toEqual([error, []]);
  });

  test('A server counts as reached once it has taken some of the bytes', async () => {
    const { fails } = attempts({ isMet: false });
    expect(await fails(cut, nothing)).toBeUndefined();
    expect(await fails(new TransportError('unreached', 'x'), nothing)).toBeUndefined();
  });

  test('Sending is abandoned once a server has lost its bytes four times, but not because connections break', async () => {
    const { fails, waited } = attempts();
    for (let time = 1; time <= 9; time += 1) expect(await fails(cut, nothing)).toBeUndefined();
    for (let time = 1; time <= 20; time += 1) expect(await fails(cut, half)).toBeUndefined();
    expect(waited).toHaveLength(29);
    expect(await fails(refused(408, 'It stalled'), half)).toMatchObject({
      exitCode: 3,
      message:
        'It stalled; gave up on the upload after 4 times its bytes were sent; no job was created: send it later',
    });
  });

  test('A submission that could become a second job is not sent again', async () => {
    const { fails, waited } = attempts({ isRepeatable: false });
    expect(await fails(cut, everything)).toMatchObject({
      exitCode: 1,
      message: expect.stringMatching(
        /^It broke; the server may have the job, but has no way to look it up: run/,
      ),
    });
    expect(waited).toEqual([]);
    expect(await fails(cut, half)).toBeUndefined();
  });
});

describe('RequestWatch', () => {
  /** A watch over ten bytes, and a clock that a test moves. */
  function watch(outer?: AbortSignal) {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const waits: string[] = [];
    const sending = new RequestWatch(10, 60, outer, 'the server', () => waits.push('waits'));
    return { sending, waits };
  }

  test('A request ends after a minute without progress', () => {
    const { sending } = watch();
    vi.advanceTimersByTime(59_999);
    sending.moved(1);
    vi.advanceTimersByTime(59_999);
    expect(sending.signal.aborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect(sending.signal.reason).toMatchObject({
      fault: 'timeout',
      message: 'the server accepted no data for 60 seconds',
    });
  });

  test('Nothing is sent if the command was interrupted before the request began', () => {
    const reason = new Error('stop');
    expect(watch(AbortSignal.abort(reason)).sending.signal.reason).toBe(reason);
  });

  test('An interruption after the request is done changes nothing', () => {
    const controller = new AbortController();
    const { sending, waits } = watch(controller.signal);
    sending.moved(10);
    sending.done();
    controller.abort();
    vi.advanceTimersByTime(1e6);
    expect([sending.isDone, sending.signal.aborted, waits, vi.getTimerCount()]).toEqual([true, false, [], 0]);
  });

  test('An interruption before the last byte ends the request at once', () => {
    const controller = new AbortController();
    const { sending, waits } = watch(controller.signal);
    sending.moved(9);
    controller.abort(new Error('stop'));
    expect([sending.signal.reason, waits, vi.getTimerCount()]).toEqual([controller.signal.reason, [], 0]);
  });

  test('An interruption after the last byte leaves five seconds for the answer', () => {
    const controller = new AbortController();
    const { sending, waits } = watch(controller.signal);
    sending.moved(10);
    controller.abort(new Error('stop'));
    vi.advanceTimersByTime(4000);
    sending.moved(10);
    vi.advanceTimersByTime(999);
    expect([sending.signal.aborted, waits]).toEqual([false, ['waits']]);
    vi.advanceTimersByTime(1);
    expect(sending.signal.reason).toBe(controller.signal.reason);
  });
});
