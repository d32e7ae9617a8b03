import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../../support/form.mjs';
import { isRunning } from '../../../support/processes.mjs';
import { ended, job, request, steps, submit } from '../../support/api.mjs';
import { Server } from '../../support/server.mjs';

/** The terminal is closed: the server and its job keep running. */
async function livesOn(context, what, launcher) {
  const server = await new Server(context, { launcher }).start();
  const gate = path.join(context.scratch, `gate-${context.serial()}-`);
  try {
    const options = steps({ gate });
    const id = await submit(server, 'witness', 'infer', { inputs: file('scan.nii'), options });
    process.kill(server.pid, 'SIGHUP');
    await delay(700);
    if (server.death !== null) {
      context.violation(
        `SIGHUP ${what} ended the server and left ${server.processes().length} processes of its job`,
      );
      for (const { pid } of server.processes()) if (isRunning(pid)) process.kill(pid, 'SIGKILL');
      return;
    }
    await request(server, '/health');
    context.check((await job(server, id)).status === 'running', `SIGHUP ${what} ended a job`);
    writeFileSync(`${gate}1`, '');
    const { status } = await ended(server, id);
    context.check(status === 'done', `After SIGHUP ${what} a job became ${status}`);
  } finally {
    await server.close();
  }
}

export const hangUps = {
  'without nohup': (context, what) => livesOn(context, what, []),
  'with nohup': (context, what) => livesOn(context, what, ['nohup']),
};
