import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { cpuSecondsOfChildren } from './usage.mjs';

const bin = fileURLToPath(new URL('../../bin/run.js', import.meta.url));
const reportPeak = fileURLToPath(new URL('../programs/report-peak.mjs', import.meta.url));

/**
 * Runs a program to its end. One at a time: the processor time is that of all children that ended meanwhile.
 * @param options `stdout`: a file that takes it; `memory`: measure the peak too, of a Node program
 * @returns seconds from the start to the end, cpu seconds, MiB, what it printed
 * @throws where it fails
 */
export async function run(workshop, command, args, options = {}) {
  const { stdout = null, memory = false, env = {}, cwd } = options;
  const peakFile = path.join(workshop.root, 'peak');
  const out = stdout === null ? 'pipe' : openSync(stdout, 'w');
  const watched = memory
    ? { NODE_OPTIONS: `--import=${pathToFileURL(reportPeak)}`, BENCH_PEAK_FILE: peakFile }
    : {};
  const before = cpuSecondsOfChildren();
  const startedAt = performance.now();
  const child = workshop.start(command, args, {
    stdio: ['ignore', out, 'pipe'],
    env: { ...env, ...watched },
    ...(cwd ? { cwd } : {}),
  });
  if (out !== 'pipe') closeSync(out);
  let printed = '';
  let complaint = '';
  child.stdout?.on('data', (chunk) => {
    printed += chunk;
  });
  child.stderr.on('data', (chunk) => {
    complaint += chunk;
  });
  const [code, signal] = await once(child, 'close');
  const seconds = (performance.now() - startedAt) / 1000;
  if (code !== 0) {
    throw new Error(`${path.basename(command)} ended with ${code ?? signal}: ${complaint.slice(-2000)}`);
  }
  return {
    seconds,
    cpu: cpuSecondsOfChildren() - before,
    memory: memory ? Number(readFileSync(peakFile, 'utf8')) : undefined,
    stdout: printed,
  };
}

/** Flags of Node for the product's processes, to look into them: `--cpu-prof --cpu-prof-dir=/tmp/profiles`. */
const nodeFlags = process.env.REMOTE_APP_BENCH_NODE_FLAGS?.split(' ') ?? [];

/** The product's command line, as built. */
export const productArgs = (args) => [...nodeFlags, bin, ...args];

/** Runs `remote-app`, as built. */
export const remoteApp = (workshop, args, options) =>
  run(workshop, process.execPath, productArgs(args), options);

/** Runs `curl`; its stdout is what `-w` asked for. */
export const curl = (workshop, args, options) =>
  run(workshop, 'curl', ['--silent', '--show-error', '--fail', '--no-buffer', ...args], options);

/** Says which programs a row needs and this machine has not. */
export async function missingTools(workshop, tools) {
  const missing = [];
  for (const tool of tools) {
    const found = await run(workshop, 'sh', ['-c', `command -v ${tool}`]).catch(() => null);
    if (!found) missing.push(tool);
  }
  return missing;
}
