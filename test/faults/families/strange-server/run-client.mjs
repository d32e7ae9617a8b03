import { spawn } from 'node:child_process';
import { memoryOf } from '../../support/processes.mjs';
import { bin } from '../../support/server.mjs';

/** Seconds in which every command must end, whatever the server answers. */
const bound = 40;
/** Characters of each output that are kept. */
const kept = 100_000;

/**
 * Runs `remote-app` and watches its memory.
 * @param stdout a file descriptor, where it is not to be read here
 */
export async function runClient(context, words, url, { limit = bound, stdout = 'pipe' } = {}) {
  const child = spawn(process.execPath, [bin, ...words, '--server', url], {
    cwd: context.scratch,
    env: { HOME: context.scratch, PATH: process.env.PATH, CI: '1' },
    stdio: ['ignore', stdout, 'pipe'],
  });
  let memory = 0;
  let [output, errors] = ['', ''];
  child.stdout?.on('data', (piece) => {
    if (output.length < kept) output += piece;
  });
  child.stderr.on('data', (piece) => {
    if (errors.length < kept) errors += piece;
  });
  const watch = setInterval(() => {
    memory = Math.max(memory, memoryOf(child.pid, 'VmHWM'));
  }, 25);
  let isLate = false;
  const end = setTimeout(() => {
    isLate = true;
    child.kill('SIGKILL');
  }, limit * 1000);
  const code = await new Promise((resolve) => child.once('close', resolve));
  clearInterval(watch);
  clearTimeout(end);
  return { code, output, errors, memory, seconds: limit, isLate };
}
