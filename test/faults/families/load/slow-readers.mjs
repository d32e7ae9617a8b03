import { file } from '../../../support/form.mjs';
import { unzip } from '../../../support/unzip.mjs';
import { ended, kill, logOf, request, steps, submit } from '../../support/api.mjs';
import { Connection } from '../../support/connection.mjs';
import { HealthWatch } from '../../support/health-watch.mjs';
import { memoryOf } from '../../support/processes.mjs';

const logReaders = 20;
const resultReaders = 40;
/** Bytes that the server may keep in memory for each reader that does not read: buffers, not whole logs or results. */
const boundForEach = 8 * 2 ** 20;

async function paused(server, path) {
  const connection = await Connection.open(server.url);
  connection.socket.pause();
  await connection.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
  return connection;
}

/** Readers that open a large log or result and take nothing: the server holds none of it in memory for them. */
export async function slowReaders(context, server) {
  const form = (settings) => ({ inputs: file('scan.nii'), options: steps(settings) });
  const result = await submit(server, 'witness', 'infer', form({ noise: 12_000 }));
  await ended(server, result);
  const logs = [];
  for (let count = 0; count < logReaders; count += 1)
    logs.push(await submit(server, 'witness', 'infer', form({ lines: 30_000 })));
  for (const id of logs) await ended(server, id);
  const before = memoryOf(server.pid);
  const watch = new HealthWatch(context, server);
  const readers = await Promise.all([
    ...logs.map((id) => paused(server, `/jobs/${id}/logs`)),
    ...Array.from({ length: resultReaders }, () => paused(server, `/jobs/${result}/result`)),
  ]);
  context.count('readers that do not read', readers.length);
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const growth = memoryOf(server.pid) - before;
  context.highest('memory taken by slow readers', Math.max(0, growth), 'bytes');
  const bound = readers.length * boundForEach;
  context.check(growth <= bound, `${readers.length} slow readers took ${growth} bytes of memory`);
  // A reader that reads later gets everything; one that leaves releases its stream.
  const [first, ...others] = readers;
  first.socket.resume();
  await first.until('__DONE__');
  const lines = first.received.toString('latin1').match(/data: line \d+ of 30000\n/g)?.length;
  context.check(lines === 30_000, `A slow reader of a log got ${lines} of 30000 lines`);
  for (const each of [first, ...others]) each.close();
  const log = await logOf(server, logs[1]);
  context.check(log.at(-1) === '__DONE__', `The log of a slow reader that left ends with ${log.at(-1)}`);
  unzip((await request(server, `/jobs/${result}/result`)).bytes);
  await watch.end();
  for (const id of logs) await kill(server, id);
}
