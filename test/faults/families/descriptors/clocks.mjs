import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../../support/form.mjs';
import { requestHead } from '../../../support/multipart.mjs';
import { isRunning } from '../../../support/processes.mjs';
import { steps, submit } from '../../support/api.mjs';
import { Clock } from '../../support/clock.mjs';
import { Connection } from '../../support/connection.mjs';
import { Server } from '../../support/server.mjs';
import { until } from '../../support/until.mjs';

const hour = 3600;

/** A server with a clock of its own, a job that prints nothing, and a reader of its log. */
async function withReader(context, clock, flags, run) {
  if (clock === null) {
    context.note('There is no C compiler here: no clock was set');
    return;
  }
  const server = await new Server(context, { environment: clock.environment, flags }).start();
  const options = steps({ gate: `${context.scratch}/never` });
  // With a fast clock the server closes idle connections sooner than a client expects.
  const send = () =>
    submit(server, 'witness', 'infer', { inputs: file('scan.nii'), options }).catch(() => null);
  const id = await until('a job is accepted', send);
  const reader = await Connection.open(server.url);
  try {
    await reader.write(requestHead('GET', `/jobs/${id}/logs`));
    await reader.until('accepted');
    await run(server, reader);
  } finally {
    reader.close();
    // How it stops does not matter here: with a fast clock its own deadlines are too short.
    await server.kill();
    for (const { pid } of server.processes()) if (isRunning(pid)) process.kill(pid, 'SIGKILL');
  }
}

const keepAlives = (reader) => reader.received.toString('latin1').split(': keepalive').length - 1;

export const clocks = {
  /** The clock is set while a log is silent: the reader still gets keep-alives. */
  async 'a clock that is set back an hour'(context) {
    const clock = Clock.make(context);
    await withReader(context, clock, ['--keepalive', '1'], async (_server, reader) => {
      await delay(2500);
      context.check(keepAlives(reader) > 0, 'A log sends no keep-alives before any clock is set');
      for (const seconds of [-hour, hour]) {
        clock.move(seconds);
        const before = keepAlives(reader);
        await delay(4000);
        const more = keepAlives(reader) - before;
        const way = seconds < 0 ? 'back' : 'forward';
        context.check(
          more >= 2 && more <= 8,
          `With the clock set ${way} an hour a log sent ${more} keep-alives in 4 s`,
        );
      }
    });
  },
  /** Fifteen minutes of a job pass in some seconds. Warnings of Node are seen when the server is closed. */
  async 'a job of fifteen minutes'(context) {
    const clock = Clock.make(context, { speed: 100 });
    await withReader(context, clock, [], async (server) => {
      await delay(9000);
      context.check(
        !/Warning: /.test(server.stderr),
        `A job of fifteen minutes makes the server warn: ${/.*Warning: .*/.exec(server.stderr)?.[0]}`,
      );
    });
  },
};
