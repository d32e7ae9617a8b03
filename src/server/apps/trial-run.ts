import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  type AvailableApp,
  carriesNumbers,
  counted,
  excerpt,
  type FieldValue,
  maxNumbersBytes,
  operations,
  parseReport,
  spellDuration,
} from '../../contract/index.js';
import { filesBelow, readSmallFile } from '../../files/index.js';
import { runProgram } from '../../programs/index.js';
import type { Grant } from '../executors/index.js';
import { appVariables, outputFault, readRefusal, refusalVariables } from '../jobs/index.js';
import { commandLine } from './command-line.js';

/** The outcome of a trial run. `note`: the app works, but refused this input. */
export interface Trial {
  readonly kind: 'ok' | 'note' | 'problem';
  readonly says: string;
}

/** Size of the volume along each axis, in voxels. */
const size = 16;

/** The NIfTI-1 header of a volume of int16 with voxels of 1 mm, placed by its sform. */
function tinyHeader(): Buffer {
  const header = Buffer.alloc(352);
  header.writeInt32LE(348, 0);
  for (const [at, each] of [3, size, size, size, 1, 1, 1, 1].entries())
    header.writeInt16LE(each, 40 + 2 * at);
  // datatype, bitpix, sform_code
  for (const [at, each] of [
    [70, 4],
    [72, 16],
    [254, 1],
  ] as const)
    header.writeInt16LE(each, at);
  // pixdim, vox_offset, scl_slope, the diagonal of the sform
  for (const at of [76, 80, 84, 88, 112, 280, 300, 320]) header.writeFloatLE(1, at);
  header.writeFloatLE(header.length, 108);
  // Millimetres and seconds.
  header.writeUInt8(10, 123);
  header.write('n+1\0', 344, 'latin1');
  return header;
}

/** Writes a volume with a ball that is brighter than its surroundings or, as labels, is 1 in a background of 0. */
function writeTinyVolume(file: string, isLabels: boolean): void {
  const data = Int16Array.from({ length: size ** 3 }, (_, index) => {
    const at = [index, index / size, index / size ** 2].map(
      (each) => (Math.floor(each) % size) - (size - 1) / 2,
    );
    const isInside = Math.hypot(...at) < size / 3;
    return isInside ? (isLabels ? 1 : 500 + (index % 50)) : 0;
  });
  writeFileSync(file, Buffer.concat([tinyHeader(), Buffer.from(data.buffer)]));
}

/** Maximum number of bytes kept of the app's output. */
const maxOutput = 2000;

/** How a trial ended (`how` is null for exit code 0), and the last part of its output. */
export interface TrialEnd {
  readonly how: string | null;
  readonly printed: string;
}

/** How a trial's command ended, in words; null for exit code 0. */
export function howEnded(
  { exitCode, signal }: { readonly exitCode: number | null; readonly signal: string | null },
  isLate: boolean,
  seconds: number,
): string | null {
  if (isLate) return `took longer than ${spellDuration(seconds)}`;
  if (exitCode === 0) return null;
  return signal === null ? `ended with exit code ${exitCode}` : `was ended by ${signal}`;
}

/** The job of a trial: its directories, and a function that returns its command for the given devices. */
export interface TrialJob {
  readonly path: string;
  readonly input: string;
  readonly output: string;
  readonly workspace: string;
  readonly temporary: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly command: (grant: Pick<Grant, 'gpus' | 'cpuSlots'>) => readonly string[];
}

/**
 * Runs the command on the CPU, as this user and without a sandbox, until it ends or the time is up; all processes that it starts
 * end with it.
 * @param environment the variables that a job would get
 */
export const runHere = (environment: NodeJS.ProcessEnv, seconds: number) => async (job: TrialJob) => {
  try {
    const words = job.command({ gpus: [], cpuSlots: 0 });
    const { exitCode, signal, stdout, endedFor } = await runProgram(words, {
      cwd: job.workspace,
      environment: {
        ...environment,
        ...job.environment,
        CUDA_VISIBLE_DEVICES: '',
        PYTHONDONTWRITEBYTECODE: '1',
        TMPDIR: job.temporary,
      },
      limit: seconds * 1000,
      maxBytes: maxOutput,
      beyond: 'keepLast',
      output: 'merged',
      endsOnSignals: true,
    });
    return { how: howEnded({ exitCode, signal }, endedFor !== null, seconds), printed: stdout.trim() };
  } catch (cause) {
    return { how: `could not be started: ${(cause as Error).message}`, printed: '' };
  }
};

/** Sentences about numbers in the app's result that tables leave out. */
function unreadNumbers(directory: string): string[] {
  return filesBelow(directory)
    .filter(({ name }) => carriesNumbers.test(name))
    .flatMap(({ name, parentPath }) => {
      try {
        const { isOdd } = parseReport(readSmallFile(path.join(parentPath, name), maxNumbersBytes));
        return isOdd
          ? [`NaN and Infinity in ${name} are empty cells of a table; JSON has null for them`]
          : [];
      } catch (cause) {
        const why = cause instanceof SyntaxError ? 'it is not JSON' : (cause as Error).message;
        return [`the numbers of ${name} do not appear in tables: ${why}`];
      }
    });
}

function judge(
  { how, printed }: TrialEnd,
  directory: string,
  refusal: string | null,
  seconds: number,
): Trial {
  const fault = outputFault(directory);
  if (how === null && fault !== null) return { kind: 'problem', says: fault };
  const files = fault === null ? filesBelow(directory).length : 0;
  const took = `${counted(files, 'file')} in ${seconds.toFixed(1)} s`;
  if (how === null && files > 0) {
    const unread = unreadNumbers(directory);
    const says = [`infer wrote ${took}`, ...unread].join('; ');
    return { kind: unread.length > 0 ? 'note' : 'ok', says };
  }
  if (how === null) return { kind: 'problem', says: 'infer succeeded, but wrote no file into --output' };
  if (refusal !== null) {
    return { kind: 'note', says: `the app starts, and refused the tiny volume: ${refusal}` };
  }
  const lines = printed.split('\n').filter((line) => line.trim() !== '');
  const last = excerpt(lines.slice(-8).join(' | '));
  const words = last === '' ? 'it printed nothing' : `it printed last: ${last}`;
  return { kind: 'problem', says: `infer ${how}; ${words}` };
}

/**
 * Runs an app once on a tiny volume, in a temporary directory that is then removed.
 * @param command the app's own
 * @param run runs the job
 * @param scan a file to use as the app's first input instead
 */
export async function trialRun(
  app: AvailableApp,
  directory: string,
  command: readonly string[],
  run: (job: TrialJob) => Promise<TrialEnd>,
  scan?: string,
): Promise<Trial> {
  const root = mkdtempSync(path.join(tmpdir(), 'remote-app-check-'));
  try {
    const [input, output, workspace] = ['Input', 'Output', 'Workspace'].map((name) =>
      path.join(root, name),
    ) as [string, string, string];
    const temporary = path.join(workspace, 'tmp');
    for (const each of [input, output, workspace, temporary]) mkdirSync(each);
    const needed = Object.entries(app.inputs).filter(([, input]) => input.required && !input.default);
    const types = needed.length > 0 ? needed.map(([, input]) => input.volume_type) : ['VOLUME'];
    const groups: string[][] = [];
    for (const [index, type] of types.entries()) {
      const given = index === 0 ? scan : undefined;
      const file = path.join(input, `g${index}`, given ? path.basename(given) : 'trial.nii');
      mkdirSync(path.dirname(file), { recursive: true });
      if (given) copyFileSync(given, file);
      else writeTinyVolume(file, type === 'SEGMENTATION');
      groups.push([file]);
    }
    const values: Record<string, FieldValue> = {};
    for (const field of operations.infer.fields) if ('default' in field) values[field.name] = field.default;
    const refusal = path.join(workspace, 'refusal.txt');
    const began = performance.now();
    const request = { operation: 'infer', values, files: { inputs: groups } } as const;
    const ended = await run({
      ...{ path: root, input, output, workspace, temporary },
      environment: {
        ...appVariables,
        ...Object.fromEntries(refusalVariables.map((name) => [name, refusal])),
      },
      command: (grant) => commandLine({ program: command, app: directory, request, output, grant }),
    });
    return judge(ended, output, readRefusal(refusal), (performance.now() - began) / 1000);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}
