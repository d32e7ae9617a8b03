import { expect, test } from 'vitest';
import { bareHost, isLoopback } from '../../src/contract/http.js';
import { list } from '../support/list.mjs';

test.each(list`localhost LOCALHOST. a.localhost 127.0.0.1 127.9.9.9 ::1 0:0:0:0:0:0:0:1
  ::ffff:127.0.0.1 ::ffff:7f00:1`)('%s is this machine', (host) => {
  expect(isLoopback(host)).toBe(true);
});

test.each([
  '',
  'example.org',
  'localhost.example.org',
  '127.0.0.1.example.org',
  '127.0.0.999',
  '10.0.0.1',
  '0.0.0.0',
  '::',
  '::ffff:10.0.0.1',
  'fe80::1',
])('%s is not this machine', (host) => {
  expect(isLoopback(host)).toBe(false);
});

test('Only the brackets of an IPv6 address are removed from a host', () => {
  expect(['[::1]', 'Gpu.example.org', '10.0.0.1'].map(bareHost)).toEqual([
    '::1',
    'Gpu.example.org',
    '10.0.0.1',
  ]);
});
