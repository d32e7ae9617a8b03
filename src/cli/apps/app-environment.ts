import path from 'node:path';
import { Writable } from 'node:stream';
import { ClientError } from '../../client/errors.js';
import type { Reporter } from '../../client/reporter.js';
import { excerpt, exitCodes, quotePath } from '../../contract/index.js';
import { errorCode, readSmallFile } from '../../files/index.js';
import { type ProgramEnd, runProgram } from '../../programs/index.js';
import type { ModelKind } from './model-app.js';

/** Maximum time for one step, in milliseconds. PyTorch alone is several gigabytes. */
const limit = 2 * 60 * 60 * 1000;

/** Maximum number of lines of a failed step's output that the error repeats. */
const toldLines = 5;

/**
 * Packages that are published only as source. Building them runs their code; all others are installed as wheels, which run none.
 */
const sourcesOf: Readonly<Record<ModelKind, readonly string[]>> = {
  nnunet: ['acvl-utils'],
  totalsegmentator: ['acvl-utils'],
  // Bundles name packages themselves, so nothing is built from source.
  'monai-bundle': [],
};

interface Step {
  readonly what: string;
  readonly words: readonly string[];
  /** What the app still lacks if the step fails. `remedy` is the command that completes it by hand. */
  readonly lacking: string;
  readonly remedy: string;
  /** Number of last lines that the error repeats. */
  readonly told: number;
}

/**
 * Runs one step, and shows its latest line of output as progress.
 * @throws ClientError with the last lines of output, and the command that completes the step by hand
 */
async function take(
  { what, words, lacking, remedy, told }: Step,
  directory: string,
  environment: NodeJS.ProcessEnv,
  reporter: Reporter,
): Promise<void> {
  reporter.running(true);
  reporter.waiting(what, true);
  const last: string[] = [];
  const output = linesOf((line) => {
    reporter.waiting(`${what}: ${excerpt(line, 100)}`);
    last.push(line);
    if (last.length > told) last.shift();
  });
  const fault = await faultOf(
    runProgram(words, { cwd: directory, environment, limit, output, endsOnSignals: true }),
  );
  if (fault === null) return;
  const lines = last.length > 0 ? `: ${excerpt(last.join(' | '), 2000)}` : '';
  throw new ClientError(
    `The app is written, and ${lacking}: ${words.slice(0, 3).join(' ')} ${fault}${lines}; run '${remedy}' in ${quotePath(directory)}`,
    exitCodes.failed,
  );
}

/**
 * Makes the virtual environment `venv` of an app, with the packages of its `requirements.txt`, and downloads its weights.
 * @param kind of network, which decides what may be built from source
 * @param fetches whether there are weights to download, with `main.py fetch` of the app
 * @throws ClientError for the step that failed
 */
export async function makeEnvironment(
  directory: string,
  kind: ModelKind,
  fetches: boolean,
  environment: NodeJS.ProcessEnv,
  reporter: Reporter,
): Promise<void> {
  const python = path.join(directory, 'venv', 'bin', 'python');
  const pip = [python, '-m', 'pip', '--disable-pip-version-check', '--no-input'];
  const sources = sourcesOf[kind];
  const formats = ['--only-binary', ':all:', ...sources.flatMap((name) => ['--no-binary', name])];
  const remedy = `python3 -m venv venv && venv/bin/python -m pip install ${formats.join(' ')} -r requirements.txt`;
  const ofPackages = { lacking: 'its environment is not', remedy, told: toldLines };
  const named = readSmallFile(path.join(directory, 'requirements.txt'))
    .trim()
    .split(/\s*\n\s*/);
  const how =
    sources.length === 0
      ? 'wheels only'
      : `wheels only, except ${sources.join(', ')}, which is built from source`;
  reporter.note(
    `pip will install ${excerpt(named.join(', '), 2000)} and what they need into ${quotePath(path.join(directory, 'venv'))}, ${how}`,
  );
  const steps: readonly Step[] = [
    {
      what: 'Making the environment',
      words: ['python3', '-m', 'venv', path.join(directory, 'venv')],
      ...ofPackages,
    },
    {
      what: 'Installing the packages of requirements.txt',
      words: [...pip, 'install', ...formats, '-r', 'requirements.txt'],
      ...ofPackages,
    },
    ...(fetches
      ? [
          {
            what: 'Downloading the weights',
            words: [python, 'main.py', 'fetch'],
            lacking: 'its weights are not all there',
            remedy: 'venv/bin/python main.py fetch',
            // The last line of its output is a full sentence.
            told: 1,
          },
        ]
      : []),
  ];
  try {
    for (const step of steps) await take(step, directory, environment, reporter);
  } finally {
    reporter.running(false);
    reporter.waiting(null);
  }
}

/** Why a program failed; null if it succeeded. */
async function faultOf(run: Promise<ProgramEnd>): Promise<string | null> {
  try {
    const { exitCode, signal } = await run;
    if (exitCode === 0) return null;
    return signal === null ? `ended with exit code ${exitCode}` : `was ended by ${signal}`;
  } catch (cause) {
    return errorCode(cause) === 'ENOENT'
      ? 'is not there (Debian and Ubuntu: apt-get install python3-venv)'
      : `could not be started (${(cause as Error).message})`;
  }
}

/** A stream that calls `tell` with each non-empty line. */
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
