import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Connection, Patience } from '../../../src/client/connection/index.js';
import { HttpError, Interrupted, TransportError } from '../../../src/client/errors.js';
import { Attempts, type Come, UploadWatch } from '../../../src/client/submit/attempts.js';
import { shuttingDownDetail } from '../../../src/contract/errors.js';
import { memoryReporter } from '../support/connect.js';

const cut = new TransportError('broken', 'It broke');
const refused = (status: number, message = 'No', isOfProxy = false) =>
  new HttpError(status, message, null, isOfProxy);
const nothing: Come = { isSent: false, isFarther: null };
const stuck: Come = { isSent: false, isFarther: false };

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
  const sent = { isRepeatable, next: 'send it later' };
  const all = new Attempts(connection, memoryReporter(), sent, patienceOf('away'));
  const fails = (error: unknown, come: Come) => all.after(error, come).catch((reason: Error) => reason);
  return { all, fails, waited };
}

describe('what is sent again', () => {
  test.each([
    ['a cut', cut],
    ['a port that nothing listens on', new TransportError('unreached', 'x')],
    ['an upload that stalled', refused(408)],
    ["a proxy's page", refused(502, 'x', true)],
    ['a server that is stopping', refused(503, shuttingDownDetail)],
  ])('after %s: once the server was reached', async (_, error) => {
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
  ])('is nothing after %s', async (_, error) => {
    const { fails, waited } = attempts();
    expect([await fails(error, nothing), waited]).toEqual([error, []]);
  });

  test('counts as reached once a part of it was taken', async () => {
    const { fails } = attempts({ isMet: false });
    expect(await fails(cut, nothing)).toBeUndefined();
    expect(await fails(new TransportError('unreached', 'x'), nothing)).toBeUndefined();
  });

  test('is given up after four times that got no farther, of which only cuts count', async () => {
    const { fails, waited } = attempts();
    const away = new TransportError('unreached', 'x');
    for (const error of [cut, cut, away, away, away, refused(408)].slice(0, 5)) await fails(error, stuck);
    await fails(cut, { isSent: false, isFarther: true });
    for (let time = 1; time <= 2; time += 1) expect(await fails(cut, stuck)).toBeUndefined();
    expect(waited).toHaveLength(8);
    expect(await fails(refused(408, 'It stalled'), stuck)).toMatchObject({
      exitCode: 3,
      message:
        'It stalled; the upload is given up after 4 times that got no farther; no job was made: send it later',
    });
    const other = attempts();
    for (let time = 1; time <= 9; time += 1) expect(await other.fails(cut, nothing)).toBeUndefined();
  });

  test('is given up when the patience is over, with what became of it', async () => {
    const words = "the server may have accepted the job: 'remote-app jobs' lists it then";
    expect(await attempts({ isOver: true }).fails(cut, { isSent: true, isFarther: null })).toMatchObject({
      message: `It broke; the upload is given up after away s; ${words}`,
      exitCode: 5,
      details: { fault: 'broken' },
      cause: cut,
    });
    expect(await attempts({ isOver: true }).fails(cut, nothing)).toMatchObject({
      message: 'It broke; the upload is given up after away s; no job was made: send it later',
    });
  });

  test('is nothing where a second job could come of it', async () => {
    const { fails, waited } = attempts({ isRepeatable: false });
    expect(await fails(cut, { isSent: true, isFarther: true })).toMatchObject({
      exitCode: 1,
      message: expect.stringMatching(
        /^It broke; the server may have the job, and cannot be asked for it: run/,
      ),
    });
    expect(waited).toEqual([]);
    expect(await fails(cut, { isSent: false, isFarther: true })).toBeUndefined();
  });

  test('waits for a place on a busy server with a patience of its own', async () => {
    const { fails, waited } = attempts();
    const busy = refused(429, 'The queue is full');
    for (let time = 1; time <= 9; time += 1) expect(await fails(busy, stuck)).toBeUndefined();
    expect(new Set(waited)).toEqual(new Set(['busy: The queue is full']));
    expect(await attempts({ isOver: true }).fails(busy, stuck)).toMatchObject({
      message:
        'The queue is full; no place was free for busy s, and no job was made: run the command again later, ' +
        'or have it wait for longer with --patience',
      exitCode: 6,
      cause: busy,
    });
  });

  test('ends with an interruption, which says that there may be a job', async () => {
    const interrupted = new Interrupted('SIGINT');
    expect(await attempts().fails(interrupted, nothing)).toBe(interrupted);
    expect(await attempts({ reason: interrupted }).fails(refused(429), stuck)).toBe(interrupted);
    expect(await attempts({ reason: interrupted }).fails(cut, nothing)).toBe(interrupted);
    const late = await attempts({ reason: interrupted }).fails(cut, { isSent: true, isFarther: null });
    expect(late).toMatchObject({
      message: expect.stringMatching(/^Interrupted; the server may have accepted/),
    });
    expect(await attempts().fails(interrupted, { isSent: true, isFarther: true })).toMatchObject({
      message: "Interrupted; the server may have accepted the job: 'remote-app jobs' lists it then",
    });
  });
});

describe('the watch over an upload', () => {
  /** A watch over ten bytes, and a clock that a test moves. */
  function watch(outer?: AbortSignal) {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const waits: string[] = [];
    const upload = new UploadWatch(10, 60, outer, 'the server', () => waits.push('waits'));
    return { upload, waits };
  }

  test('ends it after a minute in which nothing moved', () => {
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

  test('lets nothing be sent of one that was interrupted before it began', () => {
    const reason = new Error('stop');
    expect(watch(AbortSignal.abort(reason)).upload.signal.reason).toBe(reason);
  });

  test('ends with it', () => {
    const controller = new AbortController();
    const { upload, waits } = watch(controller.signal);
    upload.moved(10);
    upload.done();
    controller.abort();
    vi.advanceTimersByTime(1e6);
    expect([upload.isDone, upload.signal.aborted, waits, vi.getTimerCount()]).toEqual([true, false, [], 0]);
  });

  test('ends it at once where an interruption comes before its last byte', () => {
    const controller = new AbortController();
    const { upload, waits } = watch(controller.signal);
    upload.moved(9);
    controller.abort(new Error('stop'));
    expect([upload.signal.reason, waits, vi.getTimerCount()]).toEqual([controller.signal.reason, [], 0]);
  });

  test('waits five seconds for the answer where it comes after that, whatever still moves', () => {
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
