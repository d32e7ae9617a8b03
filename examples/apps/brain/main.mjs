/**
 * The program that the job service runs: once for many jobs (`node main.mjs resident APP`, see resident.mjs), or for one,
 * in its workspace: `node main.mjs OPERATION APP FLAGS...`. It parses, runs one operation, and turns whatever went wrong
 * into one sentence and an exit code (1, or 2 for the command line).
 */
import { readFile, writeFile } from 'node:fs/promises';
import { parseArguments, parseDevices } from './lib/arguments.mjs';
import { AppError, ServiceError, UsageError } from './lib/errors.mjs';
import { createLog, secondsSince } from './lib/log.mjs';
import { serve } from './resident.mjs';

/** Imported when one is wanted: ONNX Runtime takes longer to start than a wrong flag to refuse. */
const OPERATIONS = {
  infer: async () => (await import('./operations/infer.mjs')).infer,
  eval: async () => (await import('./operations/evaluate.mjs')).evaluate,
  uncertainty: async () => (await import('./operations/uncertainty.mjs')).uncertainty,
  pipeline: async () => (await import('./operations/pipeline.mjs')).pipeline,
};

/** What is there before the first job of a resident app: all operations, and both networks on the devices of the app. */
async function load() {
  const [word, , ...devices] = process.argv.slice(2);
  if (word !== 'resident') return;
  // What cannot be loaded is told of by the jobs that need it.
  await Promise.allSettled([
    ...Object.values(OPERATIONS).map((operation) => operation()),
    import('./lib/network.mjs').then(({ loadNetworks }) => loadNetworks(parseDevices(devices))),
  ]);
}

async function main(argv) {
  const start = performance.now();
  const { operation, options } = parseArguments(argv);
  if (options.mc > 0) throw new UsageError('--mc is not for this app: its networks have no dropout.');
  if (options.ensemble > 1) throw new UsageError(`--ensemble ${options.ensemble}: this app has one network.`);
  const log = createLog({ quiet: options.quiet });
  const manifest = await readManifest();
  log.line(`${manifest.display_name}: ${operation}`);
  log.line(manifest.description);
  const run = await OPERATIONS[operation]();
  await run({ manifest, options, log, output: options.output });
  log.line(`Finished ${operation} in ${secondsSince(start)}`);
}

async function readManifest() {
  try {
    return JSON.parse(await readFile(new URL('app.json', import.meta.url), 'utf8'));
  } catch (error) {
    throw new ServiceError(`app.json cannot be read: ${error.message}`);
  }
}

function sentenceFor(error) {
  if (isForPerson(error)) return error.message;
  const [, missing] = /^Cannot find package '([^']+)'/.exec(error.message ?? '') ?? [];
  // A copy of this directory has the program, but not the packages.
  if (missing) return `The package ${missing} is missing: run 'npm install' in the directory of this app`;
  // Anything else is a fault of this program: then the stack is what helps.
  return error.stack ?? error;
}

/** A VolumeError is told by its name, so that its module need not be loaded to refuse a command line. */
const isForPerson = (error) => error instanceof AppError || error?.name === 'VolumeError';

async function run(_model, argv) {
  try {
    await main(argv);
  } catch (error) {
    process.stderr.write(`${sentenceFor(error)}\n`);
    process.exitCode = error.exitCode ?? 1;
    // The person who has sent the input reads this sentence in place of the exit code.
    const refusalFile = process.env.REMOTE_APP_REFUSAL_FILE;
    const isRefusal = isForPerson(error) && !(error instanceof ServiceError);
    if (isRefusal && refusalFile) await writeFile(refusalFile, error.message);
  }
}

await serve(load, run);
