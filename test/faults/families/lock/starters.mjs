import { addressIn } from '../../../support/serve.mjs';
import { Server } from '../../support/server.mjs';
import { until } from '../../support/until.mjs';

/** Milliseconds in which each start must listen or end. */
const bound = 60_000;

/** Several servers on one data directory, started at once. */
export function startersOf(context, count, options = {}) {
  const dataDirectory = options.dataDirectory ?? `${context.scratch}/data-shared-${context.serial()}`;
  return Array.from({ length: count }, () => {
    const server = new Server(context, { ...options, dataDirectory });
    server.mayEnd = true;
    return server;
  });
}

/** Whether it runs and has said that it listens. */
export const isUp = (server) => server.isAlive && addressIn(server.stdout) !== undefined;

/** Waits until each listens or has ended; two must never listen at once. Returns those that listen. */
export async function settled(context, servers, what) {
  let most = 0;
  await until(
    `each of ${servers.length} starts listens or ends`,
    () => {
      most = Math.max(most, servers.filter(isUp).length);
      return servers.every((each) => isUp(each) || !each.isAlive);
    },
    bound,
  );
  const up = servers.filter(isUp);
  most = Math.max(most, up.length);
  context.check(most <= 1, `${most} servers at once work on one data directory: ${what}`);
  context.check(
    up.length >= 1,
    `No server works on the data directory: ${what}: ${servers[0].stderr.slice(-300)}`,
  );
  for (const refused of servers.filter((each) => !each.isAlive)) {
    const isClear = refused.stderr.includes(refused.dataDirectory) && !/\n\s+at /.test(refused.stderr);
    context.check(isClear, `A start that was refused (${what}) said: ${refused.stderr.slice(-300)}`);
  }
  for (const each of up) each.url = addressIn(each.stdout);
  return up;
}
