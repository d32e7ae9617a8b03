import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { writeJsonFile } from '../files/atomic-json.js';
import { readOwnFile } from '../files/own-file.js';
import { reserveJsonFile } from '../files/reserved-json.js';
import { LogFile } from './log-file.js';
import { openOutputPipe } from './output-pipe.js';
import { identify } from './process-table.js';
import { maxEndBytes, runFiles } from './protocol.js';

/**
 * Does what the start of a job takes, in a directory that is removed afterwards. V8 compiles a function, and the system loads
 * a page, when it is first used: without this a spare runner would start its job 3 ms later.
 * @param directory does not exist yet
 */
export async function rehearse(directory: string): Promise<void> {
  const files = runFiles(directory);
  for (const each of [directory, files.workspace]) mkdirSync(each, { mode: 0o700 });
  writeJsonFile(files.request, {}, { isKept: false });
  JSON.parse(readOwnFile(files.request, maxEndBytes) ?? '');
  writeJsonFile(files.record, { runner: identify(process.pid) }, { isKept: false });
  reserveJsonFile(files.end, maxEndBytes);
  const log = new LogFile(files.log, maxEndBytes);
  const { reader, writeFd, release } = openOutputPipe(files.workspace);
  try {
    reader.on('data', (chunk: Buffer) => log.append([chunk.toString()]));
    // Prints a line, as a job does.
    const child = spawn('pwd', [], {
      cwd: files.workspace,
      stdio: ['ignore', writeFd, writeFd],
      detached: true,
    });
    await Promise.race([once(child, 'exit'), once(child, 'error')]);
  } finally {
    release();
    reader.destroy();
    log.close();
  }
}
