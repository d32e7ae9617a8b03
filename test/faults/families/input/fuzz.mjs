import { existsSync } from 'node:fs';
import path from 'node:path';
import { file } from '../../../support/form.mjs';
import { times } from '../../context.mjs';
import { checkDirectories } from '../../invariants.mjs';
import { kill, listJobs, request, steps, submit } from '../../support/api.mjs';
import { Connection } from '../../support/connection.mjs';
import { HealthWatch } from '../../support/health-watch.mjs';
import { memoryOf } from '../../support/processes.mjs';
import { until } from '../../support/until.mjs';
import { mutatedRequest } from './mutations.mjs';

const requestsInTenRounds = 50_000;
const connections = 8;
/** Bytes by which a warm server may grow: room for the garbage collector, not for a leak of 50 000 requests. */
const growthBound = 192 * 2 ** 20;

/** Sends one request and checks its answer. Returns the connection for the next one, or null if it cannot be used again. */
async function send(context, server, connection, { bytes, kind, withoutBody, isBroken }) {
  await connection.write(bytes);
  // The server would wait for the rest of a request with a wrong length, so its end is sent.
  if (isBroken) connection.socket.end();
  const what = `the answer to a mutated request (${kind})`;
  const answer = await connection.answer(what, { withoutBody });
  context.count('mutated requests');
  if (answer === null) {
    if (isBroken) return null;
    throw new Error(`No answer to: ${JSON.stringify(bytes.toString('latin1').slice(0, 600))}`);
  }
  const { status, body, head } = answer;
  const shown = () =>
    `${status} ${body.slice(0, 200)} to ${JSON.stringify(bytes.toString('latin1').slice(0, 700))}`;
  context.check(
    status !== 0 && (status < 500 || status === 503),
    `A mutated request (${kind}) was answered ${shown()}`,
  );
  if (status >= 400 && /application\/json/.test(head) && !withoutBody) {
    context.check(/^\{"detail":"/.test(body), `An error has another shape: ${shown()}`);
  }
  const job = status === 200 && /^\{"job_id":"([0-9a-f]{12})"/.exec(body)?.[1];
  if (job) {
    context.count('  accepted as a job');
    await kill(server, job);
  }
  // Where the method was mutated, a body may follow that is taken for the next answer.
  const isOver = isBroken || withoutBody || connection.isEnded || /\r\nconnection: close/i.test(head);
  if (isOver || connection.received.length > 0) {
    connection.close();
    return null;
  }
  return connection;
}

/** One client that sends its share of the requests, over one connection as long as that is open. */
async function client(context, server, random, share) {
  let connection = null;
  for (let sent = 0; sent < share && server.death === null; sent += 1) {
    connection ??= await Connection.open(server.url);
    if (connection.isEnded) connection = await Connection.open(server.url);
    const mutated = mutatedRequest(random);
    try {
      connection = await send(context, server, connection, mutated);
    } catch (cause) {
      context.violation(
        `${cause.message} [${mutated.kind}] ${JSON.stringify(mutated.bytes.toString('latin1').slice(0, 500))}`,
      );
      connection?.close();
      connection = null;
    }
  }
  connection?.close();
}

/** Many mutated requests: no 500, no crash, nothing left behind, no growing memory. */
export async function fuzz(context, server) {
  const gate = path.join(context.scratch, 'shut');
  // It holds the only CPU slot, so that accepted jobs wait, and are killed before they run.
  const form = { inputs: file('scan.nii'), options: steps({ gate }) };
  const blocker = await submit(server, 'witness', 'infer', form);
  await until(
    'the gate job runs',
    () => existsSync(path.join(server.jobDirectory(blocker), 'exit.json')) === false,
  );
  const watch = new HealthWatch(context, server);
  const total = times(context.rounds, requestsInTenRounds);
  const run = (share, name) =>
    Promise.all(
      Array.from({ length: connections }, (_, at) =>
        client(context, server, context.random.fork(`${name}-${at}`), Math.ceil(share / connections)),
      ),
    );
  await run(total * 0.3, 'warm');
  const warm = memoryOf(server.pid);
  await run(total * 0.7, 'fire');
  const growth = memoryOf(server.pid) - warm;
  context.highest('memory grown under mutated requests', Math.max(0, growth), 'bytes');
  context.check(growth <= growthBound, `The server has grown by ${growth} bytes under mutated requests`);
  await watch.end();
  await kill(server, blocker);
  const fault = /^\S+ [A-Z]+ \S+ failed: .*$/m.exec(server.stderr)?.[0];
  context.check(fault === undefined, `The server reported a fault: ${fault}`);
  await checkDirectories(context, server);
  // A complete request with garbage behind it, whose answer was cut off, is a job like any other.
  for (const { job_id } of (await listJobs(server)).filter(({ finished_at }) => finished_at === null)) {
    context.count('  accepted, its answer cut off');
    await kill(server, job_id);
  }
  const { status } = await request(server, '/health');
  context.check(status === 200, `/health answers ${status} after the mutated requests`);
}
