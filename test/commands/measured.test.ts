import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { sandbox } from '../support/sandbox.js';
import { TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';

const fakePrograms = fileURLToPath(new URL('../fixtures/bin', import.meta.url));
const gpu = (id: number) => `GPU-5e1f0c3${id}-94cb-42b7-a0ee-2d1a7c3b9f4${id}`;

/** Ends once nvidia-smi has reported its two processes and a third one that belongs to no job. */
const program = `
for word; do case $previous in --output) out=$word ;; esac; previous=$word; done
asked=$(dirname "$0")/rows.asked
count() { wc -l <"$asked" 2>/dev/null || echo 0; }
sleep 3141.59 & sleep 2718.28 &
begun=$(count)
until [ $(($(count) - begun)) -ge 3 ]; do sleep 0.1; done
kill $(jobs -p)
echo x >"$out/mask.txt"
`;

let cli: Cli;
let server: TestServer;
let rows: string;
const tell = (...processes: string[]) => writeFileSync(rows, processes.map((row) => `${row}\n`).join(''));
const ofBoth = [`3141.59 ${gpu(0)}, 5000`, `2718.28 ${gpu(0)}, 1144`, `vitest ${gpu(0)}, 90000`];

beforeAll(async () => {
  cli = await Cli.create();
  rows = path.join(cli.directory, 'brain', 'rows');
  const about = { display_name: 'A', description: '', short_description: '', tta: 0, mc_dropout: 0 };
  const inputs = { A: { display_name: 'A', volume_type: 'VOLUME', required: true } };
  const resources = { gpu_memory: '4GiB', memory: '2GiB' };
  await plant(cli.directory, {
    'brain/app.json': JSON.stringify({ ...about, command: ['sh', 'main.sh'], inputs, resources }),
    'brain/main.sh': program,
  });
  server = await TestServer.start({
    runners: true,
    gpus: 1,
    apps: [path.join(cli.directory, 'brain')],
    app: 'brain',
    flags: ['--metrics'],
    environment: { FAKE_GPU_PROCESSES: rows },
  });
});

afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await cli[Symbol.asyncDispose]();
});

const run = async () => server.api.run('infer', { inputs: new File(['a'], 'a.nii') });
const shown = async (...words: string[]) => (await cli.run([...words, '--server', server.url])).stdout;

test('What a job used is shown in its description, its log, the metrics, the usage of its owner and the facts about its app', async () => {
  // No job had a GPU before.
  expect(existsSync(`${rows}.asked`)).toBe(false);
  tell(...ofBoth);
  const { id, view, log } = await run();
  expect(view).toMatchObject({
    status: 'done',
    peak_gpu_memory: 6144 * 2 ** 20,
    peak_memory: expect.any(Number),
    cpu_seconds: expect.any(Number),
  });
  expect(log).toContain("[remote-app] The job used 6.0 GiB of GPU memory; app 'brain' declares 4.0 GiB");
  expect(log).not.toContain('of memory; app');
  const status = await shown('status', id);
  expect(status).toMatch(/^GPU memory +6\.0 GiB at most\nMemory +[\d.]+ [KM]iB at most\nCPU time +\d/m);

  tell(`3141.59 ${gpu(0)}, 3072`, `2718.28 ${gpu(1)}, 4096`);
  expect((await run()).view.peak_gpu_memory).toBe(4 * 2 ** 30);
  tell(`3141.59 ${gpu(0)}, [N/A]`);
  expect((await run()).view.peak_gpu_memory).toBe(null);

  const metrics = await (await server.api.fetch('/metrics')).text();
  expect(metrics).toContain('remote_app_overuse_total{app="brain",resource="gpu_memory"} 1');
  expect(metrics).toContain('remote_app_gpu_memory_peak_bytes_bucket{le="4294967296",app="brain"} 1');
  expect(metrics).toMatch(/remote_app_memory_peak_bytes_count\{app="brain"\} 3\n/);
  expect(metrics).toMatch(/remote_app_cpu_seconds_total\{app="brain"\} [\d.e-]+\n/);
  expect(await shown('usage')).toMatch(/CPU HOURS/);

  const observed = /Observed +infer: GPU memory 6\.0 GiB \(median\), 6\.0 GiB \(maximum\) in 2 jobs; /;
  expect(await shown('apps', 'brain')).toMatch(observed);
  await server.restart();
  expect(await shown('apps', 'brain')).toMatch(observed);
});

test.skipIf(sandbox === null)('`check --measure` prints what an app used as `resources`', async () => {
  tell(...ofBoth);
  const environment = {
    PATH: `${fakePrograms}:${process.env.PATH}`,
    FAKE_GPUS: '1',
    FAKE_GPU_PROCESSES: rows,
  };
  await plant(cli.directory, { 'ct.nii': 'x' });
  const { code, stdout } = await cli.run(['check', 'brain', '--measure', '--scan', 'ct.nii'], environment);
  expect(stdout).toMatch(/^ok +trial run on GPU 0: infer wrote 1 file/m);
  expect(stdout).toMatch(
    /^ok +resources: "resources": \{ "gpu_memory": "7GiB", "memory": "1GiB", "cpus": 1 \}$/m,
  );
  expect(stdout).toMatch(
    /^note +resources: measured on one volume, and a larger one needs more: choose it with --scan; /m,
  );
  expect(code).toBe(0);
});
