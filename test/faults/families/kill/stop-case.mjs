import { isRunning } from '../../../support/processes.mjs';
import { apps, Server } from '../../support/server.mjs';
import { until } from '../../support/until.mjs';
import { attacks } from './attacks.mjs';
import { clear, running } from './kill-case.mjs';

/** One attack on a running job, and a stop of its server: no process of it is left. */
export async function stopCase(context, what) {
  const server = await new Server(context, { apps: [apps.rogue] }).start();
  context.count(`a stop where ${what}`);
  let all = [];
  await context.attempt(`A stop where ${what}`, async () => {
    const job = await running(context, server, { cpu: '1' });
    all = [job.runner, ...job.command];
    attacks[what](job);
    await server.stop();
    await until('it is gone', () => !all.some(isRunning), 5000).catch(() =>
      context.violation(
        `After a stop of the server where ${what}, ${all.filter(isRunning).length} processes of the job still run`,
      ),
    );
  });
  clear(all);
  await server.close();
}
