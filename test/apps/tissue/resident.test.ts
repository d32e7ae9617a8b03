import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ResidentWorker } from '../../support/resident-worker.mjs';
import { APP, phantom, sharedWorkspace, tissue } from './program.js';

const shared = sharedWorkspace(async (cwd) => {
  await phantom(['--out', '.', '--size', '16', '--cases', '2'], cwd);
  await phantom(['--out', 'data', '--size', '16', '--cases', '2', '--layout', 'dataset'], cwd);
});
let worker: ResidentWorker;
beforeAll(async () => {
  worker = new ResidentWorker([process.execPath, path.join(APP, 'main.mjs'), 'resident', APP, '--cpu', '1']);
  expect(await worker.answer()).toEqual({ ready: true });
});
afterAll(() => worker[Symbol.asyncDispose]());

const image = ['--inputs', 'image/head_001.nii.gz', 'image/head_002.nii.gz'];
const truth = ['--gt', 'label/head_001.nii.gz', 'label/head_002.nii.gz'];
const members = ['--ensemble', '2', '--mc', '1', '-uncertainty'];

/** Each operation, by its words without the output. A later one may use what an earlier one wrote when it ran cold. */
const operations: Readonly<Record<string, readonly string[]>> = {
  infer: ['infer', ...members, '--tta', '1', ...image],
  eval: ['eval', '--inputs', 'label/head_001.nii.gz', 'cold-infer/head_002.nii.gz', ...truth],
  uncertainty: ['uncertainty', '--inputs', 'cold-infer/head_001_stack.nii.gz'],
  pipeline: ['pipeline', ...members, ...image, ...truth],
  'fine-tune': ['fine-tune', 'Tuned', '--epochs', '1', '--models', 'CV_1', '--dataset', 'data'],
};

/** What lies in a directory, by name. */
async function contentOf(directory: string): Promise<Record<string, string>> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name));
  const contents = files.sort().map(async (file) => [file, await readFile(file, 'base64')] as const);
  return Object.fromEntries(
    (await Promise.all(contents)).map(([file, text]) => [path.relative(directory, file), text]),
  );
}

/** A log without what differs from one run to the next: how long things took. */
const timeless = (log: string): string => log.replaceAll(/[\d.]+ s\b/g, 'TIME');

test.each(Object.keys(operations))(
  'The operation %s writes and prints the same in a resident worker as in a process of its own',
  async (operation) => {
    const cwd = shared();
    const words = operations[operation] ?? [];
    const cold = await tissue([...words, '--output', `cold-${operation}`], cwd);
    expect(cold.code, cold.stderr).toBe(0);
    const expected = await contentOf(path.join(cwd, `cold-${operation}`));
    expect(Object.keys(expected)).not.toEqual([]);
    const [verb = '', ...rest] = words;
    // Each comes after the jobs of other operations; one comes after a job of its own as well.
    for (const round of operation === 'infer' ? ['first', 'second'] : ['first']) {
      const output = `${round}-${operation}`;
      const job = [verb, APP, ...rest, '--output', output];
      const { answer, log } = await worker.run(job, { directory: cwd });
      expect([answer, timeless(log)]).toMatchObject([{ exit_code: 0 }, timeless(cold.stdout)]);
      expect(await contentOf(path.join(cwd, output))).toEqual(expected);
    }
  },
);

test('A wrong command line and an unreadable file end only their own job', async () => {
  const cwd = shared();
  for (const words of [
    ['infer', '--tta', '9', ...image],
    ['infer', '--inputs', 'gone.nii.gz'],
  ]) {
    const cold = await tissue([...words, '--output', 'refused'], cwd);
    const [verb = '', ...rest] = words;
    const warm = await worker.run([verb, APP, ...rest, '--output', 'refused'], { directory: cwd });
    expect(warm.answer).toMatchObject({ exit_code: cold.code });
    expect(warm.log).toContain(cold.stderr);
    expect(cold.code).toBeGreaterThan(0);
  }
});

test('A worker serves more jobs than an event may have listeners, without a warning', async () => {
  for (let count = 0; count < 12; count += 1) {
    const job = ['infer', APP, '--output', 'many', '--quiet', ...image.slice(0, 2)];
    const { log } = await worker.run(job, { directory: shared() });
    expect(log).not.toContain('Warning');
  }
});

test('The helper of the app is the one that init writes', async () => {
  const template = new URL('../../../templates/resident/javascript/resident.mjs', import.meta.url);
  expect(await readFile(path.join(APP, 'resident.mjs'), 'utf8')).toBe(await readFile(template, 'utf8'));
});
