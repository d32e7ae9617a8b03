import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { least, steps } from '../../support/form.js';
import { apps, sharedServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';

const root = mkdtempSync(path.join(tmpdir(), 'out-of-memory-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A copy of the probe with more in its app.json. */
function probeWith(name: string, more: object): string {
  const directory = path.join(root, name);
  cpSync(apps.probe, directory, { recursive: true });
  const manifest = path.join(directory, 'app.json');
  writeFileSync(manifest, JSON.stringify({ ...JSON.parse(readFileSync(manifest, 'utf8')), ...more }));
  return directory;
}

const retries = probeWith('retries', { resources: { gpu_memory: '8GiB' }, retry_alone: true });
const server = sharedServer({ gpus: 1, apps: [apps.probe, retries] });
const { api } = server;
const infer = (...all: string[]) => ({ ...least.infer, ...steps(...all) });
const failing = (line: string) => infer(`print=${line}`, 'exit=1');

test.each([
  ['RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB', {}, 'The GPU ran out of memory'],
  ['torch.OutOfMemoryError: HIP out of memory', {}, 'The GPU ran out of memory'],
  ['RuntimeError: CUDA error: out of memory', {}, 'The GPU ran out of memory'],
  ['CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`', {}, 'The GPU ran out of memory'],
  [
    'RuntimeError: cuda runtime error (2) : out of memory at THCGeneral.cpp:50',
    {},
    'The GPU ran out of memory',
  ],
  ['CUDA failure 2: out of memory ; GPU=0', {}, 'The GPU ran out of memory'],
  ['RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED', {}, 'The GPU ran out of memory'],
  ['[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY', {}, 'The GPU ran out of memory'],
  ['cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8 bytes', {}, 'The GPU ran out of memory'],
  ['[TRT] [E] 2: Error Code 2: OutOfMemory (Requested size was 2)', {}, 'The GPU ran out of memory'],
  ['ResourceExhaustedError: OOM when allocating tensor with shape[64,512]', {}, 'The GPU ran out of memory'],
  ['RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1 byte', {}, 'The GPU ran out of memory'],
  ['RESOURCE_EXHAUSTED: Out of memory', { cpu: '1' }, 'The command ran out of memory'],
  ['OSError: [Errno 12] Nicht genügend Hauptspeicher verfügbar', {}, 'The command ran out of memory'],
  ['itk::MemoryAllocationError (0x55)', {}, 'The command ran out of memory'],
  ['FATAL ERROR: JavaScript heap out of memory', {}, 'The command ran out of memory'],
  ['Failed to allocate memory for requested buffer of size 1', {}, 'The GPU ran out of memory'],
  ['Failed to allocate memory for requested buffer of size 1', { cpu: '1' }, 'The command ran out of memory'],
  ['onnxruntime::BFCArena::AllocateRawInternal', { cpu: '1' }, 'The command ran out of memory'],
  ['MemoryError', {}, 'The command ran out of memory'],
  ["terminate called after throwing an instance of 'std::bad_alloc'", {}, 'The command ran out of memory'],
])(
  'A job that fails after printing %s with %o is reported as out of memory: %s',
  async (line, more, sentence) => {
    const { view, log } = await api.run('infer', { ...failing(line), ...more });
    const numbers = sentence.includes('GPU') ? ' (24.0 GiB available)' : ' (1.0 MiB used)';
    const error = `${sentence}, exit code 1${numbers}`;
    expect(view).toMatchObject({ status: 'error', kind: 'out-of-memory', error });
    expect(log).toContain(`[remote-app] ${error}\n`);
  },
);

test.each([
  ['another error', failing('ValueError: no memory of this')],
  ['an error long after it was out of memory', infer('print=MemoryError', 'lines=50', 'exit=1')],
  ['a name that looks like one', infer('print=cannot read CUDA_out_of_memory.nii', 'exit=1')],
  ['a message of gRPC', infer('print=RESOURCE_EXHAUSTED: message larger than 4194304', 'exit=1')],
  ['a result', infer('print=CUDA out of memory, with half of the batch now')],
])('A job with %s is not reported as out of memory', async (_, form) => {
  expect((await api.run('infer', form)).view.kind).toBeNull();
});

/** Notes that it ran, and fails for want of memory if this file is not there. */
const short = (name: string, unless = '/nobody/makes/this') =>
  infer(
    `shell=echo ${name} >>${root}/order; [ -e ${unless} ] || { touch ${unless}; echo x >../Output/first.txt; echo CUDA out of memory; exit 1; }`,
  );
const order = () => readFileSync(path.join(root, 'order'), 'utf8').trim().split('\n');
const retryLine =
  /The GPU ran out of memory, exit code 1 \(24\.0 GiB available\); it runs once more, without sharing its GPUs or the memory that apps declare/g;

test('Two jobs that request a retry run once more after both have had their turn, and fail if that is not enough', async () => {
  rmSync(path.join(root, 'order'), { force: true });
  const { gate } = await server.heldJob();
  const ids = [];
  for (const name of ['a', 'b']) {
    const { job_id } = await api.accepted('infer', { ...short(name), retry_alone: 'true' });
    await api.reaches(job_id, 'waiting');
    ids.push(job_id);
  }
  gate.open();
  for (const id of ids) {
    const { view, log } = await api.ended(id);
    expect(view).toMatchObject({ status: 'error', kind: 'out-of-memory' });
    expect(log.match(retryLine)).toHaveLength(1);
  }
  expect(order()).toEqual(['a', 'b', 'a', 'b']);
});

test('A second run that fails for another reason is not reported as out of memory', async () => {
  const mark = path.join(root, 'failed-once');
  const form = infer(
    `shell=[ -e ${mark} ] && { echo no such label; exit 3; }; touch ${mark}; echo CUDA out of memory; exit 1`,
  );
  const { view, log } = await api.run('infer', { ...form, retry_alone: 'true' });
  expect(log).toMatch(retryLine);
  expect([view.kind, view.error]).toEqual([null, 'Subprocess failed (exit code 1)']);
});

test('A job of an app that requests a retry runs once more after a restart of the server, without its earlier output', async () => {
  rmSync(path.join(root, 'order'), { force: true });
  const held = await server.heldJob();
  const form = short('c', path.join(root, 'second'));
  const { job_id: id } = await api.accepted('infer', form, { app: 'retries' });
  await api.reaches(id, 'waiting');
  const next = server.gate();
  const { job_id: other } = await api.accepted('infer', infer(`wait=${next.path}`));
  await api.reaches(other, 'waiting');
  held.gate.open();
  await api.reaches(other, 'running');
  await until('it waits again', async () => (await api.job(id)).queue_position === 1);
  await server.restart();
  next.open();
  const { view, log } = await api.ended(id);
  expect([view.status, view.kind, order()]).toEqual(['done', null, ['c', 'c']]);
  expect(log.match(/Starting infer on GPU 0/g)).toHaveLength(2);
  expect(log.match(/\(24\.0 GiB available, 8\.0 GiB declared\); it runs once more/g)).toHaveLength(1);
  expect([...(await api.result(id)).keys()]).toEqual(['probe.json']);
});
