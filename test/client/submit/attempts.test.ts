import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Connection, Patience } from '../../../src/client/connection/index.js';
import { HttpError, Interrupted, TransportError } from '../../../src/client/errors.js';
import { type AttemptProgress, Attempts, UploadWatch } from '../../../src/client/submit/attempts.js';
import { shuttingDownDetail } from '../../../src/contract/errors.js';
import { memoryReporter } from '../support/connect.js';

const cut = new TransportError('broken', 'It broke');
const refused = (status: number, message = 'No', isOfProxy = false) =>
  new HttpError(status, message, null, isOfProxy);
const nothing: AttemptProgress = { allBytesSent: false, bytes: 0 };
const half: AttemptProgress = { allBytesSent: false, bytes: 50 };
const everything: AttemptProgress = { allBytesSent: true, bytes: 100 };

/** Attempts whose waits are noted, and are over at once. */
function attempts({
  isMet = true,
  isRepeatable = true,
  isOver = false,
  reason,
}: {
  isMet?: boolean;
  isRepeatable?: boolean;
  isOver?: boolean;
  reason?: Error;
} = {}) {
  const waited: string[] = [];
  const patienceOf = (name: string) =>
    ({
      words: `${name} s`,
      after: async (error: Error) => {
        waited.push(`${name}: ${error.message}`);
        if (isOver || reason) throw reason ?? error;
      },
    }) as unknown as Patience;
  const connection = {
    isMet,
    nextCommand: (words: string) => `remote-app ${words}`,
    patience: () => patienceOf('busy'),
  } as unknown as Connection;
  const sent = { size: 100, isRepeatable, next: 'send it later' };
  const all = new Attempts(connection, memoryReporter(), sent, patienceOf('away'));
  const fails = (error: unknown, progress: AttemptProgress) =>
    all.after(error, progress).catch((reason: Error) => reason);
  return { all, fails, waited };
}

describe('Attempts', () => {
  test.each([
    ['a cut', cut],
    ['a port that nothing listens on', new TransportError('unreached', 'x')],
    ['an upload that stalled', refused(408)],
    ["a proxy's page", refused(502, 'x', true)],
    ['a server that is stopping', refused(503, shuttingDownDetail)],
  ])('After %s, an upload is sent again if the server was reached before.', async (_, error) => {
    const { all, fails, waited } = attempts();
    expect(all.isFirst).toBe(true);
    expect(await fails(error, nothing)).toBeUndefined();
    expect([all.isFirst, waited]).toEqual([false, [`away: ${error.message}`]]);
    const isCut = error === cut;
    expect(await attempts({ isMet: false }).fails(error, nothing)).toBe(isCut ? undefined : error);
  });

  test.each([
    ['silence', new TransportError('timeout', 'x')],
    ['a certificate that is not trusted', new TransportError('unusable', 'x')],
    ['a server without GPUs', refused(503)],
    ['a refusal', refused(422)],
    ['a proxy that refuses', refused(413, 'x', true)],
    ['something else', new Error('x')],
  ])('After %s, an upload is not sent again.', async (_, error) => {
    const { fails, waited } = attempts();
    expect([await fails(error, nothing), waited]).toEqual([error, []]);
  });

  test('A server counts as reached once it has taken a part of the upload.', async () => {
    const { fails } = attempts({ isMet: false });
    expect(await fails(cut, nothing)).toBeUndefined();
    expect(await fails(new TransportError('unreached', 'x'), nothing)).toBeUndefined();
  });

  test('An upload is given up once its bytes were sent four times, and attempts that sent none do not count.', async () => {
    const { fails, waited } = attempts();
    for (let time = 1; time <= 9; time += 1) expect(await fails(cut, nothing)).toBeUndefined();
    for (let time = 1; time <= 7; time += 1) expect(await fails(cut, half)).toBeUndefined();
    expect(waited).toHaveLength(16);
    expect(await fails(refused(408, 'It stalled'), half)).toMatchObject({
      exitCode: 3,
      message:
        'It stalled; the upload is given up after 4 times its bytes were sent; no job was made: send it later',
    });
  });

  test('An upload is given up when the patience is over, and the error says what became of it.', async () => {
    const words = "the server may have accepted the job: 'remote-app jobs' lists it then";
    expect(await attempts({ isOver: true }).fails(cut, everything)).toMatchObject({
      message: `It broke; the upload is given up after away s; ${words}`,
      exitCode: 5,
      details: { fault: 'broken' },
      cause: cut,
    });
    expect(await attempts({ isOver: true }).fails(cut, nothing)).toMatchObject({
      message: 'It broke; the upload is given up after away s; no job was made: send it later',
    });
  });

  test('A submission that could become a second job is not sent again.', async () => {
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

  test('A busy server is waited for with a patience of its own.', async () => {
    const { fails, waited } = attempts();
    const busy = refused(429, 'The queue is full');
    for (let time = 1; time <= 9; time += 1) expect(await fails(busy, everything)).toBeUndefined();
    expect(new Set(waited)).toEqual(new Set(['busy: The queue is full']));
    expect(await attempts({ isOver: true }).fails(busy, half)).toMatchObject({
      message:
        'The queue is full; no place was free for busy s, and no job was made: run the command again later, ' +
        'or have it wait for longer with --patience',
      exitCode: 6,
      cause: busy,
    });
  });

  test('An interruption ends the attempts and says that there may be a job.', async () => {
    const interrupted = new Interrupted('SIGINT');
    expect(await attempts().fails(interrupted, nothing)).toBe(interrupted);
    expect(await attempts({ reason: interrupted }).fails(refused(429), half)).toBe(interrupted);
    expect(await attempts({ reason: interrupted }).fails(cut, nothing)).toBe(interrupted);
    const late = await attempts({ reason: interrupted }).fails(cut, everything);
    expect(late).toMatchObject({
      message: expect.stringMatching(/^Interrupted; the server may have accepted/),
    });
    expect(await attempts().fails(interrupted, everything)).toMatchObject({
      message: "Interrupted; the server may have accepted the job: 'remote-app jobs' lists it then",
    });
  });
});

describe('UploadWatch', () => {
  /** A watch over ten bytes, and a clock that a test moves. */
  function watch(outer?: AbortSignal) {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const waits: string[] = [];
    const upload = new UploadWatch(10, 60, outer, 'the server', () => waits.push('waits'));
    return { upload, waits };
  }

  test('An upload ends after a minute in which nothing moved.', () => {
    const { upload } = watch();
    vi.advanceTimersByTime(59_999);
    upload.moved(1);
    vi.advanceTimersByTime(59_999);
    expect(upload.signal.aborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect(upload.signal.reason).toMatchObject({
      fault: 'timeout',
      message: 'the server accepted no data for 60 seconds',
    });
  });

  test('Nothing is sent if the command was interrupted before the upload began.', () => {
    const reason = new Error('stop');
    expect(watch(AbortSignal.abort(reason)).upload.signal.reason).toBe(reason);
  });

  test('An interruption after the upload is done changes nothing.', () => {
    const controller = new AbortController();
    const { upload, waits } = watch(controller.signal);
    upload.moved(10);
    upload.done();
    controller.abort();
    vi.advanceTimersByTime(1e6);
    expect([upload.isDone, upload.signal.aborted, waits, vi.getTimerCount()]).toEqual([true, false, [], 0]);
  });

  test('An interruption before the last byte ends the upload at once.', () => {
    const controller = new AbortController();
    const { upload, waits } = watch(controller.signal);
    upload.moved(9);
    controller.abort(new Error('stop'));
    expect([upload.signal.reason, waits, vi.getTimerCount()]).toEqual([controller.signal.reason, [], 0]);
  });

  test('An interruption after the last byte leaves five seconds for the answer.', () => {
    const controller = new AbortController();
    const { upload, waits } = watch(controller.signal);
    upload.moved(10);
    controller.abort(new Error('stop'));
    vi.advanceTimersByTime(4000);
    upload.moved(10);
    vi.advanceTimersByTime(999);
    expect([upload.signal.aborted, waits]).toEqual([false, ['waits']]);
    vi.advanceTimersByTime(1);
    expect(upload.signal.reason).toBe(controller.signal.reason);
  });
});
