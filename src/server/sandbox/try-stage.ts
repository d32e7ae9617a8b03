import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { oneLine } from '../../contract/quote.js';
import { stageWords } from './stage.js';

/** Milliseconds that it may take. */
const patience = 10_000;

/** What a program that failed said, in one line. */
export function complaint(cause: unknown): string {
  const { stderr = '', message = '' } = Object(cause) as { stderr?: string; message?: string };
  return oneLine((stderr.trim() || message.trim()).split('\n').at(-1) ?? '');
}

/** Makes one stage, with a sandbox in it. @returns why that failed; null if it works */
export async function tryStage(bwrap: string): Promise<string | null> {
  let directory: string | null = null;
  try {
    directory = await mkdtemp(path.join(tmpdir(), 'remote-app-stage-'));
    const inner = [bwrap, '--unshare-user', '--ro-bind', '/', '/', '--', 'true'];
    const [program = '', ...words] = [...stageWords(bwrap, { directory, jobs: directory }), ...inner];
    // The shell takes the jobs from a descriptor that nobody gives it here: it has none.
    await promisify(execFile)('sh', ['-c', 'exec "$@" 5</dev/null', 'sh', program, ...words], {
      timeout: patience,
    });
    return null;
  } catch (cause) {
    return complaint(cause);
  } finally {
    if (directory !== null) await rm(directory, { recursive: true, force: true }).catch(() => {});
  }
}
