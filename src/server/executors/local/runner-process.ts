import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { runnerProgram } from '../../../runner/program.js';

/** How runners are started. */
export interface RunnerProgram {
  /** The environment of runners and commands: the server's, without its token variables. */
  readonly environment: NodeJS.ProcessEnv;
  /** The runner's program; by default the one beside this program. */
  readonly program?: string;
}

/** A runner of this server. */
export interface RunnerProcess {
  readonly process: ChildProcess;
  readonly exited: Promise<unknown>;
}

/**
 * Starts a runner. It holds nothing of the server but, as descriptor 3, its end of a channel if it is given one.
 * @param words the arguments of its program
 * @throws the system's error if it could not be started
 */
export async function startRunner(
  { environment, program = runnerProgram }: RunnerProgram,
  words: readonly string[],
  cwd: string,
  channel: 'channel' | null = null,
): Promise<RunnerProcess> {
  const child = spawn(process.execPath, [program, ...words], {
    cwd,
    env: environment,
    stdio: ['ignore', 'ignore', 'ignore', ...(channel ? (['pipe'] as const) : [])],
    detached: true,
  });
  const exited = once(child, 'exit').catch(() => {});
  await once(child, 'spawn');
  child.unref();
  return { process: child, exited };
}
