import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeSync } from 'node:fs';
import path from 'node:path';
import { writeJsonFile } from '../files/atomic-json.js';
import { readOwnFile } from '../files/own-file.js';
import { reserveJsonFile } from '../files/reserved-json.js';
import { LogFile } from './log-file.js';
import { openEnds } from './output-pipe.js';
import { identify } from './process-table.js';
import { maxEndBytes, runFiles } from './protocol.js';

/**
 * Makes FIFOs, and does what else the start of a job takes. V8 compiles a function, and the system loads a page, when it is
 * first used: without this a spare runner would start its job 3 ms later.
 * @param directory for files that nobody reads; does not exist yet
 * @param fifos paths in one directory, at least one
 */
export async function rehearse(directory: string, fifos: readonly string[]): Promise<void> {
  const files = runFiles(directory);
  mkdirSync(directory, { mode: 0o700 });
  writeJsonFile(files.request, {}, { isKept: false });
  JSON.parse(readOwnFile(files.request, maxEndBytes) ?? '');
  writeJsonFile(files.record, { runner: identify(process.pid) }, { isKept: false });
  reserveJsonFile(files.end, maxEndBytes);
  const log = new LogFile(files.log, maxEndBytes);
  const [fifo = ''] = fifos;
  const words = ['-m', '600', ...fifos.map((each) => path.basename(each))];
  // As a job's command is started.
  const child = spawn('mkfifo', words, { cwd: path.dirname(fifo), stdio: 'ignore', detached: true });
  await Promise.race([once(child, 'exit'), once(child, 'error')]);
  const { reader, writeFd, release } = openEnds(fifo);
  reader.on('data', (chunk: Buffer) => log.append([chunk.toString()]));
  writeSync(writeFd, 'a line\n');
  release();
  await once(reader, 'close');
  log.close();
}
