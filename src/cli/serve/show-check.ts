import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { counted, exitCodes, oneLine, quotePath } from '../../contract/index.js';
import { checkApp, checkServer, type Finding } from '../../server/check.js';
import type { ServerSettings } from '../../server/settings.js';
import type { CommandIo } from '../terminal/index.js';
import { runTime } from './values.js';

const marks = { ok: 'ok', note: 'note', problem: 'PROBLEM' } as const;

const isProblem = ({ kind }: Finding): boolean => kind === 'problem';

/** Prints each finding on its own line as it arrives, then the number of problems. Returns the findings. */
async function show(findings: AsyncIterable<Finding>, io: CommandIo, isQuiet = false): Promise<Finding[]> {
  const all: Finding[] = [];
  const write = (line: string) => (isQuiet ? undefined : io.writeOut(`${line}\n`));
  for await (const finding of findings) {
    all.push(finding);
    const { kind, about, says } = finding;
    await write(`${marks[kind].padEnd(marks.problem.length)}  ${oneLine(about)}: ${oneLine(says)}`);
  }
  const problems = all.filter(isProblem).length;
  if (problems > 0) await write(counted(problems, 'problem'));
  return all;
}

/** Checks the settings, prints the findings, and sets the exit code. */
export async function showCheck(settings: ServerSettings, io: CommandIo): Promise<void> {
  const findings = await show(checkServer(settings), io);
  if (findings.some(isProblem)) io.exitCode = exitCodes.usage;
}

/** What a check of an app directory found, as `--json` prints it. */
export interface AppCheck {
  readonly directory: string;
  /** Whether there are no problems; notes do not count. */
  readonly ok: boolean;
  readonly findings: readonly Finding[];
}

/**
 * Checks an app directory for its author, prints the findings, and sets the exit code.
 * @param isQuiet whether the findings are only returned
 * @throws UsageError if it is not a directory
 */
export async function showAppCheck(
  target: string,
  flags: {
    readonly run: boolean;
    readonly try: boolean;
    readonly measure: boolean;
    readonly scan?: string | undefined;
    readonly 'time-limit': string;
  },
  io: CommandIo,
  isQuiet: boolean,
): Promise<AppCheck> {
  const directory = path.resolve(target);
  if (!statSync(directory, { throwIfNoEntry: false })?.isDirectory()) {
    throw new UsageError(`There is no directory ${quotePath(target)}; name that of an app`);
  }
  const { run, measure, scan } = flags;
  if (scan !== undefined && !existsSync(scan))
    throw new UsageError(`There is no file ${quotePath(scan)} for --scan; name a scan`);
  const isInSandbox = flags.try || measure;
  const seconds = run || isInSandbox ? runTime('time-limit', flags['time-limit']) / 1000 : null;
  const trial = { seconds, isInSandbox, isMeasured: measure, scan };
  const findings = await show(checkApp(directory, trial, io.env), io, isQuiet);
  const ok = !findings.some(isProblem);
  if (!ok) io.exitCode = exitCodes.failed;
  return { directory, ok, findings };
}
