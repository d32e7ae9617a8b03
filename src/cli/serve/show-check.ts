import { counted } from '../../contract/counted.js';
import { exitCodes } from '../../contract/errors.js';
import { oneLine } from '../../contract/quote.js';
import { checkServer } from '../../server/check.js';
import type { ServerSettings } from '../../server/settings.js';
import { writeOut } from '../terminal/standard-streams.js';

const marks = { ok: 'ok', note: 'note', problem: 'PROBLEM' } as const;

/** Prints what a check of the settings finds, a line each as it comes, and sets the exit code. */
export async function showCheck(settings: ServerSettings): Promise<void> {
  let problems = 0;
  for await (const { kind, about, says } of checkServer(settings)) {
    if (kind === 'problem') problems += 1;
    await writeOut(`${marks[kind].padEnd(marks.problem.length)}  ${oneLine(about)}: ${oneLine(says)}\n`);
  }
  if (problems === 0) return;
  await writeOut(`${counted(problems, 'problem')}\n`);
  process.exitCode = exitCodes.usage;
}
