import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { connect } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { readConfig } from '../../src/cli/serve/config-file.js';
import { serveFlags } from '../../src/cli/serve/flags.js';
import { selfSigned } from '../support/certificates.js';
import { Cli } from '../support/cli.js';
import { lacks } from '../support/needs.mjs';
import { nginxArguments } from '../support/nginx.mjs';
import { freePort } from '../support/ports.mjs';
import { hasEnded } from '../support/serve.mjs';
import { TestServer } from '../support/server.js';
import { plant, temporary } from '../support/temporary.js';
import { until } from '../support/until.mjs';

const page = readFileSync(new URL('../../docs/admin.md', import.meta.url), 'utf8');

/** The first block of the page in this language. */
function block(language: string): string {
  const [, text] = new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'ms').exec(page) ?? [];
  if (text === undefined) throw new Error(`The page has no ${language}`);
  return text;
}

/** Replaces each of these in a text, which must contain them. */
function replaced(text: string, changes: Readonly<Record<string, string>>): string {
  return Object.entries(changes).reduce((changed, [from, to]) => {
    expect(changed).toContain(from);
    return changed.replaceAll(from, to);
  }, text);
}

const smtpSink = fileURLToPath(new URL('../support/smtp-sink.mjs', import.meta.url));

/** Whether something listens on a port of this machine. */
const isOpen = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true));
    socket.on('error', () => resolve(false)).on('connect', () => socket.destroy());
  });

async function end(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return;
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  await exit;
}

interface Proxy {
  readonly port: number;
  /** Where the service is. */
  readonly target: string;
  /** A directory with `gpu.pem` and `gpu.key`. */
  readonly directory: string;
}

/** The proxies of the page: the program with its arguments, after its configuration was written. */
const proxies: Readonly<Record<'nginx' | 'caddy', (proxy: Proxy) => readonly string[]>> = {
  nginx: ({ port, target, directory }) => {
    const server = replaced(block('nginx'), {
      'listen 443 ssl': `listen 127.0.0.1:${port} ssl`,
      'gpu.example.org': 'localhost',
      '/etc/ssl/certs': directory,
      '/etc/ssl/private': directory,
      '127.0.0.1:8000': target,
      '/etc/nginx/remote-app-secret': path.join(directory, 'nginx-secret'),
    });
    return ['nginx', ...nginxArguments(directory, server)];
  },
  caddy: ({ port, target, directory }) => {
    const site = replaced(block('caddyfile'), {
      'gpu.example.org': `https://localhost:${port}`,
      '/etc/ssl/certs': directory,
      '/etc/ssl/private': directory,
      '127.0.0.1:8000': target,
      '/etc/caddy/remote-app-secret': path.join(directory, 'caddy-secret'),
    });
    const file = path.join(directory, 'Caddyfile');
    writeFileSync(file, `{\n\tadmin off\n\tauto_https disable_redirects\n}\n${site}`);
    return ['caddy', 'run', '--config', file, '--adapter', 'caddyfile'];
  },
};

/** The status of a large upload without a token, which the proxy passes on while the server refuses it. */
async function statusOfRefused(port: number, certificate: string): Promise<number | undefined> {
  const url = `https://localhost:${port}/apps/probe/infer`;
  const from = { localAddress: '127.0.0.2', family: 4 };
  const upload = request(url, { method: 'POST', ca: readFileSync(certificate), agent: false, ...from });
  const answered = once(upload, 'response') as Promise<[IncomingMessage]>;
  upload.end(Buffer.alloc(16 << 20));
  const [response] = await answered;
  // What is left to send is not sent.
  upload.on('error', () => {}).destroy();
  return response.statusCode;
}

describe('docs/admin.md', () => {
  test('The serve.yaml of docs/admin.md can be read', () => {
    const file = path.join(process.env.TMPDIR ?? '/tmp', `remote-app-test-${process.pid}.yaml`);
    onTestFinished(() => rmSync(file, { force: true }));
    writeFileSync(file, block('yaml'));
    expect(readConfig(file, serveFlags).map(({ name }) => name)).toContain('auth');
  });

  test('docs/admin.md names only metrics that exist', async () => {
    await using server = await TestServer.start({ gpus: 1, flags: ['--metrics'] });
    const text = await (await server.api.fetch('/metrics')).text();
    const named = new Set([...page.matchAll(/`(remote_app_\w+)/g)].map(([, name]) => name));
    expect(named.size).toBeGreaterThan(4);
    for (const name of named) expect(text).toContain(`# HELP ${name} `);
  });

  test.skipIf(lacks('jq', 'curl'))(
    'The programs in docs/admin.md for the end of a job send mail and chat messages',
    async () => {
      const [mail = '', chat = ''] = [...page.matchAll(/^```sh\n(#!\/bin\/sh\n.*?)^```$/gms)].map(
        ([, text]) => text,
      );
      await using root = await temporary();
      const at = (name: string) => path.join(root.path, name);
      const records = (name: string) =>
        `#!/bin/sh\n{ printf '%s\\n' "$@"; cat; } > "$(dirname "$0")/${name}.sent"\n`;
      const port = await freePort();
      const sink = spawn(process.execPath, [smtpSink, String(port), at('mail.sent')], { stdio: 'ignore' });
      onTestFinished(() => end(sink));
      await until('mail is taken', () => isOpen(port));
      const programs = {
        curl: records('curl'),
        'on-mail': replaced(mail, { 'smtp://mail.example.org': `smtp://127.0.0.1:${port}` }),
        'on-chat': replaced(chat, { '/etc/remote-app/webhook': at('webhook') }),
      };
      await plant(root.path, { ...programs, webhook: 'https://chat.example.org/hook\n' });
      for (const name of Object.keys(programs)) chmodSync(at(name), 0o755);
      const run = (name: string, more: object) =>
        execFileSync(at(name), [], {
          input: `${JSON.stringify({ job_id: '0123456789ab', app: 'liver', operation: 'infer', owner: 'ana', run_seconds: 61.4, ...more })}\n`,
          env: { PATH: `${name === 'on-chat' ? `${root.path}:` : ''}${process.env.PATH}` },
          encoding: 'utf8',
        });
      run('on-mail', { status: 'done' });
      expect(existsSync(at('mail.sent'))).toBe(false);
      run('on-mail', { status: 'error' });
      expect(readFileSync(at('mail.sent'), 'utf8')).toMatch(
        /^From: remote-app@example\.org\r\nTo: admin@.*^Subject: Job 0123456789ab of liver failed\r\n\r\n\{.*"owner": "ana"/ms,
      );
      run('on-chat', { status: 'killed', run_seconds: null, owner: null });
      const sent = () => readFileSync(at('curl.sent'), 'utf8');
      expect(sent()).toContain('"text": "liver, infer: killed after 0 s (admin)"');
      run('on-chat', { status: 'done' });
      expect(sent()).toContain('"text": "liver, infer: done after 61 s (ana)"');
      expect(sent()).toContain('https://chat.example.org/hook\n');
    },
  );

  for (const name of ['nginx', 'caddy'] as const) {
    const title = `The ${name} configuration of docs/admin.md carries a whole job, and refusals of large uploads`;
    test.skipIf(lacks(name, 'openssl'))(title, async () => {
      await using cli = await Cli.create();
      const at = (file: string) => path.join(cli.directory, file);
      await plant(cli.directory, {
        'proxy-secret': 'between-them\n',
        'nginx-secret': 'proxy_set_header X-Proxy-Secret "between-them";\n',
        'caddy-secret': 'header_up X-Proxy-Secret "between-them"\n',
      });
      chmodSync(at('proxy-secret'), 0o600);
      const flags = [
        '--audit-log',
        at('audit'),
        '--trusted-proxy',
        '127.0.0.1',
        '--proxy-secret-file',
        at('proxy-secret'),
      ];
      await using server = await TestServer.start({ token: 'secret', flags });
      const { file } = await selfSigned(cli.directory, 'gpu', 'localhost');
      await plant(cli.directory, { 'ct.nii': 'x'.repeat(3_000_000) });
      const port = await freePort();
      const proxy = { port, target: new URL(server.url).host, directory: cli.directory };
      const [program = '', ...words] = proxies[name](proxy);
      const child = spawn(program, words, {
        stdio: 'ignore',
        env: { PATH: `${process.env.PATH}:/usr/sbin`, HOME: cli.home },
      });
      onTestFinished(() => end(child));
      const env = {
        REMOTE_APP_SERVER: `https://localhost:${port}`,
        REMOTE_APP_CA: file,
        SERVICE_API_TOKEN: 'secret',
      };
      await until('the proxy answers', async () => (await cli.run(['health'], env)).code === 0);
      const { code, stdout, stderr } = await cli.run(['infer', 'ct.nii', '-o', 'Result'], env);
      expect([code, stdout], stderr).toEqual([0, expect.stringContaining('Starting infer')]);
      expect(readFileSync(path.join(cli.directory, 'Result', 'probe.json'), 'utf8')).toContain('ct.nii');
      const refused = await cli.run(['jobs'], { ...env, SERVICE_API_TOKEN: 'wrong' });
      expect(refused.code).toBe(4);
      const statuses = await Promise.all(Array.from({ length: 5 }, () => statusOfRefused(port, file)));
      expect(statuses).toEqual(Array(5).fill(401));
      // A user of the machine who does not know the secret forges nothing.
      await fetch(`${server.url}/jobs`, {
        headers: { 'X-Forwarded-For': '203.0.113.9', 'X-Proxy-Secret': 'guessed' },
      });
      const from = () =>
        readFileSync(at('audit'), 'utf8')
          .split('\n')
          .filter((line) => line.includes('"refusal"'))
          .map((line) => JSON.parse(line).from);
      await until('all refusals are written', () => from().length >= 7);
      expect(from().toSorted()).toEqual(['127.0.0.1', '127.0.0.1', ...Array(5).fill('127.0.0.2')]);
      await end(child);
    });
  }
});
