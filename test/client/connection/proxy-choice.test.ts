import { describe, expect, test } from 'vitest';
import { chooseProxy } from '../../../src/client/connection/proxy.js';
import { UsageError } from '../../../src/client/errors.js';

const choose = (server: string, env: Record<string, string>) => chooseProxy(new URL(server), env);

describe('the proxy for a server', () => {
  test.each([
    ['http://gpu.test', { HTTP_PROXY: 'http://p:1' }, 'http://p:1'],
    ['http://gpu.test', { http_proxy: 'http://p:1', HTTP_PROXY: 'http://q:1' }, 'http://p:1'],
    ['http://gpu.test', { http_proxy: '', HTTP_PROXY: 'http://q:1' }, undefined],
    ['https://gpu.test', { HTTP_PROXY: 'http://p:1' }, undefined],
    ['https://gpu.test', { HTTPS_PROXY: 'https://p' }, 'https://p'],
    ['https://gpu.test', { HTTPS_PROXY: 'p:3128' }, 'http://p:3128'],
    ['http://localhost:8000', { HTTP_PROXY: 'http://p:1' }, undefined],
    ['http://127.8.8.8', { HTTP_PROXY: 'http://p:1' }, undefined],
    ['http://[::1]:8000', { HTTP_PROXY: 'http://p:1' }, undefined],
  ] as [string, Record<string, string>, string | undefined][])(
    '%s with %j uses the proxy %s',
    (server, env, origin) => {
      expect(choose(server, env)?.origin).toBe(origin);
    },
  );

  test.each([
    ['gpu.test', true],
    ['GPU.test', true],
    ['.test', true],
    ['*.test', true],
    ['*', true],
    ['a,gpu.test:8000', true],
    ['a gpu.test:80', false],
    ['pu.test', false],
    ['gpu.test.org', false],
    ['', false],
    [',', false],
  ])('NO_PROXY=%s bypasses the proxy for gpu.test: %s', (list, isDirect) => {
    expect(choose('http://gpu.test:8000', { HTTP_PROXY: 'http://p:1', NO_PROXY: list }) === null).toBe(
      isDirect,
    );
  });

  test.each([
    ['http://10.1.2.3', '10.0.0.0/8', true],
    ['http://10.1.2.3', '10.1.2.3', true],
    ['http://10.1.2.3', '11.0.0.0/8', false],
    ['http://10.1.2.3', '10.0.0.0/99', false],
    ['http://10.1.2.3', '.3', false],
    ['http://[fd00::7]', 'fd00::/16', true],
    ['http://[fd00::7]', '[fd00::7]', true],
    ['http://[fd00::7]:8000', '[fd00::7]:8001', false],
    ['http://gpu.test', '10.0.0.0/8', false],
  ])('%s with NO_PROXY=%s is reached directly: %s', (server, list, isDirect) => {
    expect(choose(server, { http_proxy: 'http://p:1', no_proxy: list }) === null).toBe(isDirect);
  });

  test.each([
    ['http://p:1', null],
    ['http://ada@p:1', 'ada:'],
    ['http://:hush@p:1', ':hush'],
    ['ada%40lab:h%3Aush@p:1', 'ada@lab:h:ush'],
  ])('The proxy setting %s sends the login %s', (value, login) => {
    expect(choose('http://gpu.test', { HTTP_PROXY: value })?.authorization).toBe(
      login === null ? null : `Basic ${Buffer.from(login).toString('base64')}`,
    );
  });

  test.each(['socks5://u:hush@p:1', 'http://u:hush@:x', 'http://u:hu%sh@p'])(
    'A variable that does not name a proxy is a usage error that does not show its value: %s',
    (value) => {
      const choice = () => choose('http://gpu.test', { HTTP_PROXY: value });
      expect(choice).toThrow(UsageError);
      expect(choice).toThrow(/^The variable HTTP_PROXY (?!.*hu)/);
    },
  );
});
