import { constants } from 'node:os';
import { describe, expect, test } from 'vitest';
import {
  ClientError,
  HttpError,
  Interrupted,
  isServerFailure,
  isTransient,
  OutputError,
  TransportError,
  type TransportFault,
  WriteError,
  withResumeHint,
  withWriteErrors,
} from '../../src/client/errors.js';
import { nextCommand } from '../../src/client/next-command.js';

const connection = { nextCommand: (words: string) => nextCommand(words, [['profile', 'lab two']]) };
const of = (status: number, isOfProxy = false) => new HttpError(status, 'No', null, isOfProxy);
const cut = (fault: TransportFault) => new TransportError(fault, 'It broke');

test.each([
  ['a cut', cut('broken'), { transient: true, failure: false }],
  ['silence', cut('timeout'), { transient: true, failure: false }],
  ['an address that nothing listens on', cut('unreached'), { transient: true, failure: false }],
  ['a certificate that is not trusted', cut('unusable'), { transient: false, failure: false }],
  ['an upload that stalled', of(408), { transient: true, failure: false }],
  ['a busy server', of(429), { transient: true, failure: false }],
  ['a proxy without its server', of(502, true), { transient: true, failure: true }],
  ['a server that is late', of(504), { transient: true, failure: true }],
  ['an error of the server', of(500), { transient: false, failure: true }],
  ['another program at the address', of(501, true), { transient: false, failure: false }],
  ['a refusal', of(422), { transient: false, failure: false }],
  ['something else', new Error('x'), { transient: false, failure: false }],
])('The client knows whether the same request may succeed after %s', (_, error, { transient, failure }) => {
  expect([isTransient(error), isServerFailure(error)]).toEqual([transient, failure]);
});

test.each([
  [of(302), 5, undefined],
  [of(404), 2, undefined],
  [of(404, true), 5, 'unusable'],
  [of(501, true), 5, 'unusable'],
  [of(503), 6, undefined],
  [of(503, true), 5, undefined],
  [of(403, true), 4, undefined],
  [of(407, true), 4, undefined],
  [of(504), 5, undefined],
  [of(502), 5, undefined],
  [of(405, true), 5, 'unusable'],
  [of(410, true), 5, 'unusable'],
  [of(410), 1, undefined],
  [of(399), 5, undefined],
  [of(400), 2, undefined],
  [cut('timeout'), 3, 'timeout'],
  [cut('broken'), 5, 'broken'],
])('Error %# has its exit code and its fault', (error, exitCode, fault) => {
  expect([error.exitCode, error.details.fault]).toEqual([exitCode, fault]);
});

describe('a command that stops following its job', () => {
  const logs = "'remote-app logs ab --profile 'lab two'' follows it";
  const result = "'remote-app result ab --profile 'lab two'' fetches its result";

  test('A command that stops following its job says how to continue if the connection or the output is lost', () => {
    expect(withResumeHint(connection, 'ab', cut('broken'))).toMatchObject({
      message: `It broke; job ab may go on: ${logs}, ${result}`,
      exitCode: 5,
      details: { fault: 'broken', job_id: 'ab' },
    });
    const closed = withResumeHint(connection, 'ab', new OutputError('no space')) as Error;
    expect(closed.message).toContain(`what was printed is not complete; job ab may go on: ${logs}`);
  });

  test('A command that stops following a finished job says that only the result is missing, and which command fetches it to the same place', () => {
    const again = 'remote-app result ab -o here';
    expect(withResumeHint(connection, 'ab', cut('timeout'), { isDone: true, again })).toMatchObject({
      message: `It broke; job ab is done: '${again}' fetches its result`,
      exitCode: 3,
    });
  });

  test('A command that stops following its job adds this advice to a refusal only if the server is known to have the job', () => {
    const refused = of(401);
    expect(withResumeHint(connection, 'ab', refused)).toBe(refused);
    for (const known of [{ isKnown: true }, { isDone: true }])
      expect(withResumeHint(connection, 'ab', refused, known)).toMatchObject({
        name: 'GaveUp',
        cause: refused,
      });
    for (const gone of [of(404), of(410)])
      expect(withResumeHint(connection, 'ab', gone, { isKnown: true })).toBe(gone);
  });

  test('A command that stops following its job adds this advice once, and to no other error', () => {
    const told = withResumeHint(connection, 'ab', cut('broken'));
    expect(withResumeHint(connection, 'ab', told, { isDone: true })).toBe(told);
    const other = new Error('x');
    expect(withResumeHint(connection, 'ab', other, { isKnown: true })).toBe(other);
  });
});

test('An interruption reports its cause, and what it means for the job', () => {
  const told = (name: string) => {
    const interrupted = new Interrupted(name).with('job ab goes on', { job_id: 'ab' });
    return [interrupted.message, interrupted.leavesJob, interrupted.exitCode, interrupted.details.job_id];
  };
  expect(told('SIGINT')).toEqual(['Interrupted; job ab goes on', false, 130, 'ab']);
  expect(told('SIGQUIT')).toEqual(['Interrupted; job ab goes on', true, 130, 'ab']);
  expect(told('SIGTERM')).toEqual(['Interrupted by SIGTERM; job ab goes on', false, 130, 'ab']);
  expect(new Interrupted('SIGHUP').message).toBe('Interrupted by SIGHUP');
});

test('An error includes the id of its job, unless it already names another', () => {
  expect(new ClientError('x', 1, { a: 1 }).about('ab').details).toEqual({ job_id: 'ab', a: 1 });
  expect(new ClientError('x', 1, { job_id: 'cd' }).about('ab').details).toEqual({ job_id: 'cd' });
});

test('A system error says what to do, and an error that is already explained stays unchanged', async () => {
  const systemError = (code: string, errno: number) =>
    Object.assign(new Error(`${code}: x`), { code, errno });
  const failure = (cause: unknown) =>
    withWriteErrors('/nowhere/a', 'run it again', () => Promise.reject(cause)).catch(
      (error: unknown) => error,
    );
  const full = systemError('ENOSPC', -constants.errno.ENOSPC);
  expect(await failure(full)).toMatchObject({
    name: 'WriteError',
    exitCode: 1,
    details: { code: 'ENOSPC' },
    cause: full,
    message: expect.stringMatching(/^Cannot write '\/nowhere\/a': .*; free some space, then run it again$/),
  });
  expect(new WriteError('a', systemError('EMFILE', -24), 'go on').message).toMatch(
    /; check that path, then go on$/,
  );
  const damaged = systemError('Z_DATA_ERROR', -3);
  const explained = new ClientError('x', 1);
  expect([await failure(damaged), await failure(explained)]).toEqual([damaged, explained]);
});
