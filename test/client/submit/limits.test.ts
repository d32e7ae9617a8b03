import { describe, expect, test } from 'vitest';
import type { LimitsAnswer } from '../../../src/client/connection/index.js';
import { checkSizes, checkTimes, keptForADay } from '../../../src/client/submit/limits.js';
import { operationOf } from '../../../src/contract/operations.js';

const unlimited = {
  ...{ max_file_size: null, max_upload_size: null, max_dataset_size: null },
  ...{ max_keep: null, max_run_time: null, max_fine_tune_time: null },
} as unknown as LimitsAnswer;

const limits = (more: Partial<LimitsAnswer>): LimitsAnswer => ({ ...unlimited, ...more });
const file = (size: number, extracted?: number) => ({
  source: `${size}.nii`,
  size,
  ...(extracted === undefined ? {} : { extracted }),
});

describe('sizes', () => {
  test('Sizes may reach the limits, but not exceed them by a byte', () => {
    const bounded = limits({ max_file_size: 1000, max_upload_size: 1500 });
    checkSizes([file(1000), file(500)], bounded, 'here');
    expect(() => checkSizes([file(1000), file(501)], bounded, 'here')).toThrow(
      'These inputs take 1501 bytes to send, and here takes at most 1500 bytes at once; send them in several jobs',
    );
    expect(() => checkSizes([file(5), file(2000)], bounded, 'here')).toThrow(
      "'2000.nii' takes 2.0 KiB to send, and here takes files of at most 1000 B",
    );
    checkSizes([file(1e15)], unlimited, 'here');
  });

  test('The size of a data set is checked only against its own limit, packed and unpacked', () => {
    const bounded = limits({ max_file_size: 10, max_upload_size: 10, max_dataset_size: 1000 });
    checkSizes([file(1000, 1000)], bounded, 'here');
    const what = "The data set '1001.nii' has 1001 B, and here takes data sets of at most 1000 B";
    expect(() => checkSizes([file(1001, 3)], bounded, 'here')).toThrow(what);
    expect(() => checkSizes([file(3, 5000)], bounded, 'here')).toThrow(
      "The data set '3.nii' has 4.9 KiB, and here takes data sets of at most 1000 B",
    );
    expect(() => checkSizes([file(11, 11)], { ...bounded, max_dataset_size: null }, 'here')).toThrow(
      'takes files of at most 10',
    );
  });
});

describe('times', () => {
  const infer = operationOf('infer');
  const tune = operationOf('fine_tune');
  const bounded = limits({ max_keep: 7200, max_run_time: 3600, max_fine_tune_time: 86_400 });

  test('Times may be as long as the server allows for that operation', () => {
    checkTimes({ operation: infer, fields: {} }, bounded, 'here');
    checkTimes({ operation: infer, fields: { keep: '7200', time_limit: '3600' } }, bounded, 'here');
    checkTimes({ operation: infer, fields: { keep: '99999' } }, unlimited, 'here');
    checkTimes({ operation: tune, fields: { time_limit: '86400' } }, bounded, 'here');
    expect(() => checkTimes({ operation: infer, fields: { keep: '7201' } }, bounded, 'here')).toThrow(
      '--keep 7201s is too long: here keeps a job for at most 2h',
    );
    expect(() => checkTimes({ operation: infer, fields: { time_limit: '7200' } }, bounded, 'here')).toThrow(
      '--time-limit 2h is too long: on here a job may run for at most 1h',
    );
    expect(() => checkTimes({ operation: tune, fields: { time_limit: '86401' } }, bounded, 'here')).toThrow(
      'at most 1d',
    );
  });

  test('A job is kept for a day, as long as the command waits, or as long as the server allows', () => {
    const kept = (outage: number, most: number | null) =>
      keptForADay(infer, outage, limits({ max_keep: most }));
    expect(kept(600, 1e6)).toEqual({ keep: '86400' });
    expect(kept(100_000.5, 1e6)).toEqual({ keep: '100061' });
    expect(kept(100_000, 3600)).toEqual({ keep: '3600' });
    expect(kept(600, null)).toEqual({});
  });
});
