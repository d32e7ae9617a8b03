/**
 * The program that the job service runs: once for many jobs (`node main.mjs resident APP`, see resident.mjs), or for one,
 * in its workspace: `node main.mjs OPERATION APP FLAGS...`. It parses, runs one operation, and turns whatever went wrong
 * into one sentence and an exit code (1, or 2 for the command line).
 */
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArguments } from './lib/arguments.mjs';
import { AppError, ServiceError } from './lib/errors.mjs';
import { createLog, secondsSince } from './lib/log.mjs';
import { readManifest } from './lib/manifest.mjs';
import { serve } from './resident.mjs';

/** Loaded when one is wanted: a wrong flag is refused without them. */
const OPERATIONS = {
  infer: async () => (await import('./operations/infer.mjs')).infer,
  eval: async () => (await import('./operations/evaluate.mjs')).evaluate,
  uncertainty: async () => (await import('./operations/uncertainty.mjs')).uncertainty,
  pipeline: async () => (await import('./operations/pipeline.mjs')).pipeline,
  'fine-tune': async () => (await import('./operations/fine-tune.mjs')).fineTune,
};

/**
 * What is there before the first job of a resident app: all operations, with the packages behind them. The
 * checkpoints and settings are not: they are small, and a job shall see those that were added or changed meanwhile.
 */
async function load() {
  if (process.argv[2] !== 'resident') return;
  // One that cannot be loaded is told of by the jobs that need it.
  await Promise.allSettled(Object.values(OPERATIONS).map((operation) => operation()));
}

async function main(argv) {
  const start = performance.now();
  const { operation, name, options } = parseArguments(argv);
  const log = createLog({ quiet: options.quiet });
  // The app is the directory of this program: the APP argument is the server's name for it.
  const appDirectory = path.dirname(fileURLToPath(import.meta.url));
  const manifest = await readManifest(appDirectory);
  log.line(`${manifest.display_name}: ${operation} on ${describeDevice(options)}`);
  const run = await OPERATIONS[operation]();
  await run({ appDirectory, manifest, name, options, log, output: options.output });
  log.line(`Finished ${operation} in ${secondsSince(start)}`);
}

function describeDevice({ gpu, cpu }) {
  if (gpu === undefined) return `the CPU (${cpu ?? 1} asked for, 1 used)`;
  const visible = process.env.CUDA_VISIBLE_DEVICES ?? '(not set)';
  return `the CPU, though GPU ${gpu.join(', ')} was given (CUDA_VISIBLE_DEVICES=${visible}): this app needs none`;
}

function sentenceFor(error) {
  if (error instanceof AppError) return error.message;
  const [, missing] = /^Cannot find package '([^']+)'/.exec(error.message ?? '') ?? [];
  // A copy of this directory has the program, but not the packages.
  if (missing) return `The package ${missing} is missing: run 'npm install' in the directory of this app`;
  // Anything else is a fault of this program: then the stack is what helps.
  return error.stack ?? error;
}

async function run(_model, argv) {
  try {
    await main(argv);
  } catch (error) {
    process.stderr.write(`${sentenceFor(error)}\n`);
    process.exitCode = error instanceof AppError ? error.exitCode : 1;
    // The person who has sent the input reads this sentence in place of the exit code.
    const refusalFile = process.env.REMOTE_APP_REFUSAL_FILE;
    const isRefusal = error instanceof AppError && !(error instanceof ServiceError);
    if (isRefusal && refusalFile) await writeFile(refusalFile, error.message);
  }
}

await serve(load, run);
