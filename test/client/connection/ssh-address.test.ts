import { describe, expect, test } from 'vitest';
import {
  readServerUrl,
  readSshAddress,
  showServerUrl,
  sshCommand,
} from '../../../src/client/connection/address.js';
import { UsageError } from '../../../src/client/errors.js';

const here = { host: '127.0.0.1', port: 8000 };

describe('an address over ssh', () => {
  test.each([
    ['ssh://gpu', { host: 'gpu', user: null, port: null, target: here }, 'ssh gpu'],
    ['ssh://gpu/', { host: 'gpu', user: null, port: null, target: here }, 'ssh gpu'],
    [
      'ssh://ana@gpu.example.org:2222',
      { host: 'gpu.example.org', user: 'ana', port: 2222 },
      'ssh -p 2222 ana@gpu.example.org',
    ],
    ['ssh://ana%40ad@gpu_1', { host: 'gpu_1', user: 'ana@ad' }, 'ssh ana@ad@gpu_1'],
    ['ssh://gpu/9000', { target: { host: '127.0.0.1', port: 9000 } }, 'ssh gpu'],
    ['ssh://login/gpu03:9000', { host: 'login', target: { host: 'gpu03', port: 9000 } }, 'ssh login'],
    [
      'ssh://[::1]:22/[::1]:9000',
      { host: '::1', port: 22, target: { host: '[::1]', port: 9000 } },
      'ssh -p 22 ::1',
    ],
  ])('The address %s is parsed', (text, address, command) => {
    const url = readServerUrl(text);
    expect(readSshAddress(url)).toMatchObject(address);
    expect(sshCommand(readSshAddress(url))).toBe(command);
    expect(showServerUrl(url)).toBe(text.replace(/\/$/, ''));
  });

  test.each([
    'ssh://-oProxyCommand=touch%20x/',
    'ssh://-oProxyCommand=x',
    'ssh://-l@gpu',
    'ssh://a%20b@gpu',
    'ssh://a;b@gpu',
    'ssh://%24(x)@gpu',
    'ssh://%zz@gpu',
    'ssh://gpu$(x)',
    'ssh://gpu`x`',
    'ssh://gpu;x',
    'ssh://ana:secret@gpu',
    'ssh://',
    'ssh:gpu',
    'ssh://gpu:0',
    'ssh://gpu:70000',
    'ssh://gpu/x',
    'ssh://gpu/0',
    'ssh://gpu/99999',
    'ssh://gpu/:8000',
    'ssh://gpu/-x:8000',
    'ssh://gpu/a:b:8000',
    'ssh://gpu/8000/more',
    'ssh://gpu?port=8000',
    'ssh://gpu#x',
  ])('%s is a usage error that shows no password', (text) => {
    expect(() => readServerUrl(text)).toThrow(UsageError);
    expect(() => readServerUrl(text)).not.toThrow(/secret/);
  });
});
