import path from 'node:path';
import { Writable } from 'node:stream';
import { ClientError } from '../../client/errors.js';
import type { Reporter } from '../../client/reporter.js';
import { excerpt, exitCodes, quotePath } from '../../contract/index.js';
import { type ProgramEnd, runProgram } from '../../programs/index.js';

/** Milliseconds that one step may take: PyTorch alone is some gigabytes. */
const limit = 2 * 60 * 60 * 1000;

/** Most lines of the end of what pip printed that are told of a failure. */
const toldLines = 5;

/** What makes the environment of an app by hand, in its directory. */
const environmentCommand = 'python3 -m venv venv && venv/bin/python -m pip install -r requirements.txt';

/**
 * Makes the virtual environment `venv` of an app, with the packages of its `requirements.txt`.
 * @throws ClientError with the last lines of what failed, and the command that does it by hand
 */
export async function makeEnvironment(
  directory: string,
  environment: NodeJS.ProcessEnv,
  reporter: Reporter,
): Promise<void> {
  const python = path.join(directory, 'venv', 'bin', 'python');
  const pip = [python, '-m', 'pip', '--disable-pip-version-check', '--no-input'];
  const steps = [
    { what: 'Making the environment', words: ['python3', '-m', 'venv', path.join(directory, 'venv')] },
    {
      what: 'Installing the packages of requirements.txt',
      words: [...pip, 'install', '-r', 'requirements.txt'],
    },
  ];
  try {
    for (const { what, words } of steps) {
      reporter.waiting(what, true);
      const last: string[] = [];
      const output = linesOf((line) => {
        reporter.waiting(`${what}: ${excerpt(line, 100)}`);
        last.push(line);
        if (last.length > toldLines) last.shift();
      });
      const fault = await faultOf(
        runProgram(words, { cwd: directory, environment, limit, output, endsOnSignals: true }),
      );
      if (fault !== null) {
        const told = last.length > 0 ? `: ${excerpt(last.join(' | '), 1000)}` : '';
        throw new ClientError(
          `The app is written, and its environment is not: ${words.slice(0, 3).join(' ')} ${fault}${told}; run '${environmentCommand}' in ${quotePath(directory)}`,
          exitCodes.failed,
        );
      }
    }
  } finally {
    reporter.waiting(null);
  }
}

/** How a program failed; null if it did not. */
async function faultOf(run: Promise<ProgramEnd>): Promise<string | null> {
  try {
    const { exitCode, signal } = await run;
    if (exitCode === 0) return null;
    return signal === null ? `ended with exit code ${exitCode}` : `was ended by ${signal}`;
  } catch (cause) {
    return `could not be started (${(cause as Error).message})`;
  }
}

/** A stream that tells each line, without empty ones. */
function linesOf(tell: (line: string) => void): Writable {
  let rest = '';
  return new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      const lines = `${rest}${chunk.toString()}`.split(/[\r\n]+/);
      rest = lines.pop() ?? '';
      for (const line of lines) if (line.trim() !== '') tell(line.trim());
      done();
    },
  });
}
