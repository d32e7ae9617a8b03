import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { refusal } from '../support/api.js';
import { least, steps } from '../support/form.js';
import { lacks } from '../support/needs.mjs';
import { freePort } from '../support/ports.mjs';
import { RawConnection } from '../support/raw-http.js';
import { TestServer } from '../support/server.js';
import { TestClock } from '../support/test-clock.js';
import { sha256, Tus } from '../support/tus.js';
import { until } from '../support/until.mjs';

/** The value of a metric with these labels in the text of `/metrics`. */
function metric(text: string, name: string, labels: Readonly<Record<string, string>> = {}): number | null {
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  const line = text
    .split('\n')
    .find(
      (each) =>
        /^[^#]/.test(each) &&
        each.split(/[{ ]/, 1)[0] === name &&
        wanted.every((part) => each.includes(part)),
    );
  return line === undefined ? null : Number(line.split(' ').at(-1));
}

const read = async (url: string): Promise<string> => (await fetch(url)).text();

describe('GET /metrics', () => {
  test('GET /metrics counts jobs by state, their times, refusals, bytes, streams and GPUs', async () => {
    await using server = await TestServer.start({ runners: true, gpus: 2, flags: ['--metrics'] });
    await server.api.run('infer', least.infer);
    await server.api.run('infer', { ...least.infer, ...steps('exit=1') });
    await server.api.fetch('/nowhere');
    const { id, gate } = await server.heldJob({ gpu: '1' });
    await using log = await server.api.follow(id);
    expect(log.response.status).toBe(200);
    const response = await server.api.fetch('/metrics');
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    const text = await response.text();
    const of = { app: 'probe', operation: 'infer' };
    const values = {
      accepted: metric(text, 'remote_app_jobs_accepted_total', of),
      done: metric(text, 'remote_app_jobs_ended_total', { ...of, state: 'done' }),
      failed: metric(text, 'remote_app_jobs_ended_total', { ...of, state: 'error' }),
      running: metric(text, 'remote_app_jobs', { state: 'running' }),
      kept: metric(text, 'remote_app_jobs', { state: 'done' }),
      queued: metric(text, 'remote_app_jobs', { state: 'queued' }),
      waited: metric(text, 'remote_app_queue_wait_seconds_count', { device: 'gpu' }),
      ran: metric(text, 'remote_app_run_seconds_count', of),
      refused: metric(text, 'remote_app_refusals_total', { status: '404', error: 'notFound' }),
      busy: [0, 1].map((gpu) => metric(text, 'remote_app_gpu_busy', { gpu: String(gpu) })),
      streams: metric(text, 'remote_app_log_streams'),
    };
    expect(values).toEqual({
      accepted: 3,
      done: 1,
      failed: 1,
      running: 1,
      kept: 1,
      queued: 0,
      waited: 3,
      ran: 2,
      refused: 1,
      busy: [0, 1],
      streams: 1,
    });
    expect(metric(text, 'remote_app_received_bytes_total')).toBeGreaterThan(500);
    expect(metric(text, 'remote_app_sent_bytes_total')).toBeGreaterThan(500);
    expect(metric(text, 'remote_app_disk_free_bytes')).toBeGreaterThan(0);
    gate.open();
    await log.until(/__DONE__/);
    await until(
      'the GPU is free',
      async () => metric(await read(`${server.url}/metrics`), 'remote_app_gpu_busy', { gpu: '1' }) === 0,
    );
  });

  test('GET /metrics counts completed uploads, and shows the total that is kept', async () => {
    await using server = await TestServer.start({ flags: ['--metrics'] });
    const tus = new Tus(server.api);
    await tus.send('whole');
    await tus.send('removed');
    await tus.begin('begun and not whole', 'begun');
    await tus.remove(sha256('removed'));
    const text = await read(`${server.url}/metrics`);
    const names = ['uploads_total', 'upload_bytes_total', 'kept_uploads', 'kept_upload_bytes'];
    expect(names.map((name) => metric(text, `remote_app_${name}`))).toEqual([2, 12, 2, 24]);
    await server.stop();
    await server.start(['--keep-uploads', '0']);
    expect(metric(await read(`${server.url}/metrics`), 'remote_app_kept_uploads')).toBeNull();
  });

  test('GET /metrics counts no GPU time while a result is packed and the next job has the GPU', async () => {
    const clock = new TestClock();
    const flags = ['--metrics', '--disk-per-job', '5TiB'];
    await using server = await TestServer.start({ clock, gpus: 1, flags });
    const gate = server.gate();
    // Hours of packing.
    const taken = steps('print=x', `wait=${gate.path}`, `zeros=x:${2 ** 42}`);
    const id = await server.api.running('infer', { ...least.infer, ...taken, gpu: '0' }, 'x');
    clock.pass(2);
    gate.open();
    await server.api.run('infer', { ...least.infer, gpu: '0' });
    expect((await server.api.job(id)).status).toBe('running');
    clock.pass(3600);
    await server.api.kill(id);
    await server.api.ended(id);
    const text = await read(`${server.url}/metrics`);
    expect(metric(text, 'remote_app_gpu_seconds_total')).toBe(2);
  });

  test('GET /metrics counts no time without a server as run time', async () => {
    const clock = new TestClock();
    await using server = await TestServer.start({ clock, gpus: 1, flags: ['--metrics'] });
    const { id, gate } = await server.heldJob({ gpu: '0' });
    await server.stop();
    clock.pass(2);
    gate.open();
    await server.scriptEnded(id);
    clock.pass(3600);
    await server.start();
    expect((await server.api.ended(id)).view.status).toBe('done');
    const text = await read(`${server.url}/metrics`);
    expect(metric(text, 'remote_app_gpu_seconds_total')).toBe(2);
    expect(server.stderr).toMatch(/done after 2 s/);
  });

  test('GET /metrics is available only if it is enabled', async () => {
    await using server = await TestServer.start();
    expect(await refusal(await server.api.fetch('/metrics'))).toEqual([
      404,
      expect.stringContaining('--metrics'),
    ]);
  });

  test('GET /metrics needs the token, except on a port of its own, which serves nothing else', async () => {
    await using server = await TestServer.start({
      token: 'secret',
      flags: ['--metrics-port', '0'],
    });
    expect((await fetch(`${server.url}/metrics`)).status).toBe(401);
    expect((await server.api.fetch('/metrics')).status).toBe(200);
    const [, own = ''] = /^Metrics at (http:\/\/127\.0\.0\.1:\d+)\/metrics$/m.exec(server.stderr) ?? [];
    expect((await fetch(`${own}/metrics`)).status).toBe(200);
    expect((await fetch(`${own}/jobs`)).status).toBe(404);
    expect((await fetch(`${own}/metrics`, { method: 'POST' })).status).toBe(404);
    expect(await server.stop()).toBe(0);
  });

  /** The status that the port of the metrics answers to these headers. */
  async function statusFor(
    server: TestServer,
    headers: readonly string[],
    line = 'GET /metrics HTTP/1.1',
  ): Promise<number> {
    const [, own = ''] = /^Metrics at (http:\S+)\/metrics$/m.exec(server.stderr) ?? [];
    await using connection = await RawConnection.open(own);
    connection.write([line, ...headers, '', ''].join('\r\n'));
    return (await connection.answer()).status;
  }

  const pages = [
    ['Host: localhost', 'Origin: http://evil.example'],
    ['Host: localhost', 'Sec-Fetch-Site: cross-site'],
  ];

  test('GET /metrics on a port of its own refuses web pages of other sites, like a server without a token', async () => {
    await using server = await TestServer.start({
      token: 'secret',
      flags: ['--metrics-port', '0'],
    });
    for (const headers of [['Host: evil.example'], ['Host: 10.0.0.1:9108'], ...pages]) {
      expect([headers, await statusFor(server, headers)]).toEqual([headers, 403]);
      expect(await statusFor(server, headers, 'GET /jobs HTTP/1.1')).toBe(403);
    }
    for (const host of ['localhost:9108', '127.0.0.1', '[::1]:9108']) {
      expect([host, await statusFor(server, [`Host: ${host}`])]).toEqual([host, 200]);
    }
  });

  test('GET /metrics on a port of its own at a network address accepts any host name of the machine', async () => {
    const flags = ['--metrics-port', '0', '--metrics-host', '0.0.0.0'];
    await using server = await TestServer.start({ token: 'secret', flags });
    for (const host of ['gpu.lab.example:9108', '10.0.0.1']) {
      expect([host, await statusFor(server, [`Host: ${host}`])]).toEqual([host, 200]);
    }
    for (const headers of pages) expect(await statusFor(server, headers)).toBe(403);
  });
});

describe.skipIf(lacks('prometheus'))("Debian's prometheus", () => {
  test("Debian's prometheus finds no fault in the metrics", async () => {
    await using server = await TestServer.start({ gpus: 1, flags: ['--metrics'] });
    await server.api.run('infer', least.infer);
    await server.api.fetch('/nowhere');
    const text = await read(`${server.url}/metrics`);
    const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], {
      input: text,
      encoding: 'utf8',
    });
    expect([status, stdout + stderr]).toEqual([0, '']);
  });

  test("Debian's prometheus scrapes the metrics with the token", async () => {
    await using server = await TestServer.start({ token: 'secret', flags: ['--metrics'] });
    await server.api.run('infer', least.infer);
    const port = await freePort();
    const config = path.join(server.scratch, 'prometheus.yml');
    const { host } = new URL(server.url);
    writeFileSync(
      config,
      `scrape_configs:\n  - job_name: remote-app\n    scrape_interval: 1s\n    authorization: { credentials: secret }\n    static_configs: [{ targets: ['${host}'] }]\n`,
    );
    const child = spawn(
      'prometheus',
      [
        `--config.file=${config}`,
        `--storage.tsdb.path=${server.scratch}/prometheus`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      { stdio: 'ignore' },
    );
    onTestFinished(() => end(child));
    const query = encodeURIComponent('remote_app_jobs_ended_total{app="probe",state="done"}');
    const result = await until(
      'prometheus has scraped it',
      async () => {
        const answer = await fetch(`http://127.0.0.1:${port}/api/v1/query?query=${query}`).catch(() => null);
        if (!answer?.ok) return null;
        const { data } = (await answer.json()) as { data: { result: { value: [number, string] }[] } };
        return data.result[0]?.value[1] ?? null;
      },
      20_000,
    );
    expect(result).toBe('1');
    await end(child);
  }, 120_000);
});

/** Ends a program, and waits for it. */
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
}
