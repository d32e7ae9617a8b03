import { expect, test } from 'vitest';
import { withValue } from '../../src/cli/command/deidentify-flags.js';
import { deidentifyChoice, wantsDeidentified } from '../../src/cli/command/index.js';

const none = new Set<string>();
const usual = { configDir: '/config', profile: 'default', allowed: [] };

test('The de-identification mode comes from the flag, then the environment, then the profile', () => {
  const choice = (flags: object, ofProfile?: 'full' | 'names', typed: readonly string[] = []) =>
    deidentifyChoice(flags, { deidentify: ofProfile }, new Set(typed), '/config');
  expect(choice({})).toEqual({ ...usual, mode: null, isRefused: false });
  expect(choice({}, 'full')).toEqual({ ...usual, mode: 'full', isRefused: false });
  expect(choice({ deidentify: 'names' }, 'full')).toEqual({ ...usual, mode: 'names', isRefused: false });
  expect(choice({ deidentify: 'no' }, 'full')).toEqual({ ...usual, mode: null, isRefused: true });
  expect(choice({ 'no-deidentify': true }, 'full')).toEqual({ ...usual, mode: null, isRefused: true });
  // The environment is no contradiction, and neither is saying the same twice.
  expect(choice({ deidentify: 'full', 'no-deidentify': true }).mode).toBeNull();
  const typed = ['deidentify', 'no-deidentify'];
  expect(choice({ deidentify: 'no', 'no-deidentify': true }, 'full', typed).mode).toBeNull();
  expect(() => choice({ deidentify: 'full', 'no-deidentify': true }, 'full', typed)).toThrow(
    '--deidentify and --no-deidentify exclude each other; give one of them',
  );
  expect(choice({ profile: 'lab', 'allow-identifying': ['burned-in'] })).toEqual({
    ...{ configDir: '/config', profile: 'lab', allowed: ['burned-in'], mode: null, isRefused: false },
  });
  expect(deidentifyChoice({ profile: '' }, { deidentify: undefined }, none, '/config').profile).toBe(
    'default',
  );
});

test('A command that cannot de-identify checks the environment and the profile in the same order', () => {
  const wants = (said: string | undefined, deidentify?: 'full' | 'names') =>
    wantsDeidentified(said === undefined ? {} : { REMOTE_APP_DEIDENTIFY: said }, { deidentify });
  expect([wants(undefined), wants(''), wants(undefined, 'names'), wants('', 'full')]).toEqual([
    ...[false, false, true, true],
  ]);
  expect([wants('NO', 'full'), wants('0', 'full'), wants('1'), wants('names')]).toEqual([
    ...[false, false, true, true],
  ]);
});

test('--deidentify without a value means everything, and after -- it is a file name', () => {
  expect(withValue(['infer', '--deidentify', 'scan', '--', '--deidentify'])).toEqual([
    ...['infer', '--deidentify=full', 'scan', '--', '--deidentify'],
  ]);
  expect(withValue(['--deidentify'])).toEqual(['--deidentify=full']);
});
