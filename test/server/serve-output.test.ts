import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { least } from '../support/form.js';
import { isRunning } from '../support/processes.mjs';
import { sharedServer, TestServer } from '../support/server.js';
import { temporary } from '../support/temporary.js';
import { until } from '../support/until.mjs';

const bin = fileURLToPath(new URL('../../bin/run.js', import.meta.url));
const signals = ['SIGHUP', 'SIGUSR2', 'SIGXFSZ', 'SIGPIPE'] as const;

describe('serve', () => {
  const server = sharedServer({ ownProcess: true });

  test('serve prints only the address on stdout', async () => {
    expect(server.stdout).toBe(`Listening on ${server.url}\n`);
    expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect((await server.api.fetch('/health')).status).toBe(200);
  });

  test('serve starts, works and stops if stderr cannot be written to', async () => {
    const full = openSync('/dev/full', 'w');
    await using server = await TestServer.start({ ownProcess: true, stderr: full });
    closeSync(full);
    for (const name of signals) server.signal(name);
    expect((await server.api.run('infer', least.infer)).view.status).toBe('done');
    expect(await server.stop()).toBe(0);
  });

  test('serve keeps running after signals that end other programs, and so do its jobs', async () => {
    const { id, gate } = await server.heldJob();
    for (const name of signals) {
      for (let time = 0; time < 3; time += 1) server.signal(name);
      expect((await server.api.fetch('/health')).status, name).toBe(200);
    }
    gate.open();
    expect((await server.api.ended(id)).view.status).toBe('done');
    expect(isRunning(server.pid)).toBe(true);
  });

  test('serve keeps running if the reader of its stderr has left', async () => {
    server.stopReading();
    for (let time = 0; time < 3; time += 1) {
      server.signal('SIGHUP');
      expect((await server.api.fetch('/health')).status).toBe(200);
    }
  });

  test('serve keeps running when its terminal is closed', async () => {
    await using directory = await temporary();
    const serve = `${process.execPath} ${bin} serve --port 0 --auth off --data-dir ${directory.path}/data`;
    const code = path.join(directory.path, 'code');
    const log = path.join(directory.path, 'typescript');
    const terminal = spawn('script', ['-q', '-f', '-c', `trap '' HUP; ${serve}; echo $? > ${code}`, log], {
      stdio: ['ignore', 'ignore', 'ignore'],
      env: { PATH: process.env.PATH, HOME: directory.path, CUDA_VISIBLE_DEVICES: '' },
    });
    const printed = () => (existsSync(log) ? readFileSync(log, 'utf8') : '');
    const url = await until('it listens', () => /Listening on (http:\S+?)\r?\n/.exec(printed())?.[1]);
    const note = path.join(directory.path, 'data', 'serve.lock');
    const { pid } = JSON.parse(readFileSync(note, 'utf8')) as { pid: number };
    const closed = once(terminal, 'exit');
    terminal.kill('SIGKILL');
    await closed;
    for (let time = 0; time < 3; time += 1) {
      process.kill(pid, 'SIGHUP');
      expect((await fetch(`${url}/health`)).status).toBe(200);
    }
    process.kill(pid, 'SIGTERM');
    // Node resets a terminal at the end of a process, and aborts where it cannot.
    expect(await until('it has ended', () => existsSync(code) && readFileSync(code, 'utf8'))).toBe('0\n');
    expect(isRunning(pid)).toBe(false);
  });
});
