import { describe, expect, test } from 'vitest';
import {
  errorKinds,
  exitCodeOf,
  FieldError,
  internalError,
  ServiceError,
} from '../../src/contract/errors.js';

describe('the errors', () => {
  test.for([
    [400, 2],
    [401, 4],
    [404, 2],
    [409, 1],
    [410, 1],
    [413, 2],
    [422, 2],
    [429, 6],
    [503, 6],
    [507, 6],
    [500, 1],
    [418, 1],
  ])('Status %i ends a command with exit code %i', ([status = 0, exit]) => {
    expect(exitCodeOf(status)).toBe(exit);
  });

  test('Errors that a retry may avoid say when to retry', () => {
    const statuses = Object.values(errorKinds)
      .filter(({ retryAfter }) => retryAfter !== undefined)
      .map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([423, 429, 503]));
  });

  test('Errors carry their kind, and errors of a field carry its name', () => {
    expect(new ServiceError('busy', 'Server busy').kind).toMatchObject({
      status: 429,
      exit: 6,
      retryAfter: 10,
    });
    const error = new FieldError('tta', 'must be an integer');
    expect([error.kind.status, error.detail]).toEqual([422, "Field 'tta' must be an integer"]);
  });
});

test('An error of the service has a code, one sentence and its cause', () => {
  const cause = new Error('why');
  const { name, message, code, detail, kind, ...error } = new ServiceError('diskFull', 'No room', { cause });
  expect({ name, message, code, detail, status: kind.status }).toEqual({
    ...{ name: 'ServiceError', message: 'No room', code: 'diskFull', detail: 'No room', status: 507 },
  });
  expect(new ServiceError('diskFull', '', { cause }).cause).toBe(cause);
  expect(error).toEqual({});
  expect(internalError()).toEqual(new ServiceError('internal', 'Internal server error'));
  const { field, problem, code: ofField } = new FieldError('a\nb', 'is bad');
  expect([field, problem, ofField]).toEqual(['a\nb', 'is bad', 'invalidField']);
  expect(new FieldError('a\nb', 'is bad').detail).toBe(String.raw`Field 'a\x0ab' is bad`);
});
