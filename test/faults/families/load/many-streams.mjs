import path from 'node:path';
import { file } from '../../../support/form.mjs';
import { kill, steps, submit } from '../../support/api.mjs';
import { Connection } from '../../support/connection.mjs';
import { HealthWatch } from '../../support/health-watch.mjs';
import { until } from '../../support/until.mjs';

const limit = 200;

async function stream(server, id) {
  const connection = await Connection.open(server.url);
  await connection.write(`GET /jobs/${id}/logs HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  await connection.until('\r\n\r\n');
  return connection;
}

const statusOf = (connection) => Number(connection.received.toString('latin1', 9, 12));

/** 200 streams may be open; the 201st is refused, and accepted after another one is closed. */
export async function manyStreams(context, server) {
  const gate = path.join(context.scratch, 'never');
  const form = { inputs: file('scan.nii'), options: steps({ gate }) };
  const ids = [];
  for (let count = 0; count <= limit; count += 1) ids.push(await submit(server, 'witness', 'infer', form));
  const watch = new HealthWatch(context, server);
  const streams = await Promise.all(ids.slice(0, limit).map((id) => stream(server, id)));
  context.count('log streams at once', streams.length);
  const refused = streams.filter((each) => statusOf(each) !== 200);
  context.check(refused.length === 0, `${refused.length} of ${limit} log streams were refused`);
  for (const [id, which] of [
    [ids[limit], 'the 201st stream'],
    [ids[0], 'a second stream of one job'],
  ]) {
    const other = await stream(server, id);
    context.check(statusOf(other) === 429, `${which} was answered with ${statusOf(other)}`);
    other.close();
  }
  await Promise.all(streams.map((each) => each.until('accepted: infer')));
  streams.pop().close();
  await until('a place among the streams is free again', async () => {
    const next = await stream(server, ids[limit]);
    const isOpen = statusOf(next) === 200;
    if (isOpen) streams.push(next);
    else next.close();
    return isOpen;
  });
  await Promise.all(ids.map((id) => kill(server, id)));
  await Promise.all(streams.map((each) => each.until('__ERROR__ Killed by user')));
  const silent = streams.filter((each) => !each.received.includes('__ERROR__ Killed by user'));
  context.check(silent.length <= 1, `${silent.length} log streams ended without the marker`);
  for (const each of streams) each.close();
  await watch.end();
}
