import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { makeFifo } from '../../src/runner/index.js';
import { least, steps } from '../support/form.js';
import { filePart, multipart, submissionHead } from '../support/multipart.mjs';
import { isRunning } from '../support/processes.mjs';
import { RawConnection } from '../support/raw-http.js';
import { TestServer } from '../support/server.js';
import { temporary } from '../support/temporary.js';
import { until } from '../support/until.mjs';

/** Milliseconds, somewhat more than the server's own deadline. */
const limit = 10_000;

/** Closes a server of this process; resolves with the milliseconds that it took. */
async function closed(server: TestServer): Promise<number> {
  const start = performance.now();
  await server.stop();
  return performance.now() - start;
}

/** Asks the process of a server to stop. Returns how it ended, and after how many milliseconds. */
async function stopped(server: TestServer, ...more: (() => Promise<void>)[]) {
  const start = performance.now();
  server.signal('SIGTERM');
  for (const each of more) await each();
  const end = await server.ended();
  return { end, milliseconds: performance.now() - start };
}

/** Has Node run this when the signal to stop has come. */
const afterSignal = (code: string): readonly string[] => [
  '--import',
  `data:text/javascript,process.once('SIGTERM',()=>{${encodeURIComponent(code)}})`,
];

const leftover = afterSignal('setInterval(()=>{},1000)');

describe.concurrent('exit of serve within ten seconds', () => {
  test('When asked to stop, serve exits within ten seconds despite an idle keep-alive connection', async () => {
    await using server = await TestServer.start();
    await using connection = await RawConnection.open(server.url);
    connection.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await until('the answer', () => connection.received.includes('{"status":"ok"}'));
    expect(await closed(server)).toBeLessThan(5000);
  });

  test('When asked to stop, serve exits within ten seconds despite an upload that has half arrived', async () => {
    await using server = await TestServer.start();
    const body = multipart([filePart('inputs', 'a.nii')]);
    await using upload = await RawConnection.open(server.url);
    upload.write(submissionHead('/apps/probe/infer', `Content-Length: ${body.length}`));
    upload.write(body.subarray(0, body.length / 2));
    await until('the upload has begun', () => server.jobDirectories().length === 1);
    expect(await closed(server)).toBeLessThan(limit);
  });

  test('When asked to stop, serve exits within ten seconds despite a download that is not read', async () => {
    await using server = await TestServer.start();
    const { id } = await server.api.run('infer', { ...least.infer, ...steps('fill=noise:30000000') });
    await using download = await RawConnection.open(server.url);
    download.socket.pause();
    download.write(`GET /jobs/${id}/result HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    await until('the file is open', () =>
      server.openFiles().some((file) => file === path.join(server.jobDirectory(id), 'result.zip')),
    );
    expect(await closed(server)).toBeLessThan(limit);
  });

  test('When asked to stop, serve exits within ten seconds and leaves a result that is being packed to the next server', async () => {
    await using server = await TestServer.start({ flags: ['--disk-per-job', '1TiB'] });
    const form = { ...least.infer, ...steps('zeros=sparse:200000000000', 'print=x') };
    const id = await server.api.running('infer', form, 'x');
    const isPacked = () =>
      server.openFiles().includes(path.join(server.jobDirectory(id), 'Output', 'sparse'));
    await until('it is being packed', isPacked);
    expect(await closed(server)).toBeLessThan(limit);
    expect(isPacked()).toBe(false);
    await server.start();
    expect((await server.api.job(id)).status).toBe('running');
    await server.api.kill(id);
  });

  test('When asked to stop, serve exits within ten seconds even if a handle stays open, and names it', async () => {
    await using server = await TestServer.start({ ownProcess: true, node: leftover });
    const { end, milliseconds } = await stopped(server);
    expect(end).toBe('SIGKILL');
    expect(milliseconds).toBeLessThan(limit);
    expect(server.stderr).toContain('Stopping; no job is active.\n');
    expect(server.stderr).toMatch(/Stopping took too long; exiting now\. Still open: .*Timeout/);
  });

  test('When asked to stop, serve exits within ten seconds despite a thread that waits for the file system', async () => {
    await using directory = await temporary();
    const pipe = path.join(directory.path, 'pipe');
    makeFifo(pipe);
    const code = `import('node:worker_threads').then(({Worker})=>new Worker("require('fs').readFileSync('${pipe}')",{eval:true}))`;
    await using server = await TestServer.start({ ownProcess: true, node: afterSignal(code) });
    const { end, milliseconds } = await stopped(server);
    expect(end).toBe('SIGKILL');
    expect(milliseconds).toBeLessThan(limit);
  });
});

describe('exit of serve within ten seconds', () => {
  test('When asked to stop, serve exits within ten seconds despite a log stream that is not read', async () => {
    await using server = await TestServer.start();
    const gate = server.gate();
    // Far more than the sockets of both sides take.
    const form = { ...least.infer, ...steps('lines=1000000', `wait=${gate.path}`) };
    const { job_id: id } = await server.api.accepted('infer', form);
    const log = path.join(server.jobDirectory(id), 'log');
    await until('all is written', () => existsSync(log) && readFileSync(log).includes('line 1000000\n'));
    await using stream = await RawConnection.open(server.url);
    stream.socket.pause();
    stream.write(`GET /jobs/${id}/logs HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    await until('the log is read', () => server.openFiles().filter((file) => file === log).length > 1);
    expect(await closed(server)).toBeLessThan(limit);
    gate.open();
    await server.scriptEnded(id);
  });

  test('When asked to stop, serve exits within ten seconds despite a job whose runner ignores every signal', async () => {
    await using server = await TestServer.start({ runners: true });
    const form = { ...least.infer, ...steps('print=x', `wait=${server.gate().path}`) };
    const id = await server.api.running('infer', form, 'x');
    const record = readFileSync(path.join(server.jobDirectory(id), 'runner.json'), 'utf8');
    const { pid } = JSON.parse(record).runner as { pid: number };
    process.kill(pid, 'SIGSTOP');
    expect(await closed(server)).toBeLessThan(limit);
    if (isRunning(pid)) process.kill(pid, 'SIGCONT');
    await until('the job has ended', () => server.processes().length === 0);
  });
});

describe('serve when asked to stop twice', () => {
  test('When asked to stop twice, serve exits at once, and has reported what becomes of its jobs', async () => {
    const flags = ['--on-exit', 'keep'];
    await using server = await TestServer.start({ ownProcess: true, node: leftover, flags });
    const { gate } = await server.heldJob();
    const { end, milliseconds } = await stopped(server, async () => {
      await until('it stops', () => server.stderr.includes('Stopping'));
      server.signal('SIGINT');
    });
    expect(end).toBe(1);
    expect(milliseconds).toBeLessThan(3000);
    expect(server.stderr).toContain('Stopping; leaving 1 active job to the next server.\n');
    gate.open();
    await until('the job has ended', () => server.processes().length === 0);
  });
});
