import path from 'node:path';
import { oneLine } from '../../contract/quote.js';
import { findProgram } from '../../files/find-program.js';
import { readScriptStart } from '../../files/shebang.js';
import { SetupError } from '../setup-error.js';

/** The file that keeps KonfAI's engine loaded, in the directory `engines` of this package. */
const konfaiWorker = 'konfai_worker.py';

/** How pip starts a script of an interpreter whose path is too long, or has a space: a shell runs it. */
const startedByShell = /^'''exec'\s+"?([^"\n]+?)"?\s+"\$0"/m;

/** The Python that a script of KonfAI is for; undefined for what is no such script. */
function pythonOf(file: string, searched: string): string | undefined {
  const { shebang, text } = readScriptStart(file);
  if (!text.includes('konfai_apps')) return undefined;
  const [, throughShell] = startedByShell.exec(text) ?? [];
  if (throughShell !== undefined) return throughShell;
  const python = shebang.find((word) => path.basename(word).startsWith('python'));
  return python === undefined ? undefined : findProgram(python, searched);
}

/**
 * The command that starts a resident engine, to which `resident` and its devices are added. KonfAI's engine is kept loaded
 * by a file of this package, which runs with KonfAI's own Python; any other engine has to speak the protocol itself.
 * @param engine program and first arguments, as `--engine` names them
 * @param searched where programs are searched, as in PATH
 * @param workers the directory `engines` of this package
 * @throws SetupError where KonfAI's engine does not say which Python it is for
 */
export function residentEngine(
  engine: readonly string[],
  searched: string,
  workers: string,
): readonly string[] {
  const worker = path.join(workers, konfaiWorker);
  const [program = '', ...words] = engine;
  if (words.join(' ') === '-m konfai_apps') return [program, worker];
  if (words.length > 0) return engine;
  const file = findProgram(program, searched);
  const python = file === undefined ? undefined : pythonOf(file, searched);
  if (python !== undefined) return [python, worker];
  if (file !== undefined && path.basename(program) === 'konfai-apps') {
    throw new SetupError(
      `${oneLine(file)} does not say which Python it is for, so it cannot be kept loaded: name the program of KonfAI's ` +
        'environment itself, as in --engine /opt/konfai/bin/konfai-apps, or leave --engine-resident out',
    );
  }
  return engine;
}
