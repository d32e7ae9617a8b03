import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, constants, openSync, writeFileSync, writeSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../../support/form.mjs';
import { ended, request, steps, submit } from '../../support/api.mjs';
import { Server } from '../../support/server.mjs';
import { terminalThatCloses } from '../../support/terminal.mjs';
import { until, within } from '../../support/until.mjs';

const stopBound = 10_500;

/** Causes of lines in the server's log: refusals, failed jobs, broken requests. */
async function giveItReasons(server) {
  for (let count = 0; count < 20; count += 1) {
    await request(server, `/apps/nothing-${count}/infer`, { method: 'POST', body: 'x', limit: 8000 });
    await request(server, '/jobs/0123456789ab/result', { limit: 8000 });
  }
}

/** The server starts, answers, runs a job and stops in time, without a usable stderr. */
async function livesOn(context, what, options, lose = () => {}) {
  const server = new Server(context, options);
  server.spawn();
  try {
    await server.listening();
    await lose(server);
    await giveItReasons(server);
    const id = await submit(server, 'witness', 'infer', {
      inputs: file('scan.nii'),
      options: steps({ lines: 5 }),
    });
    const { status } = await ended(server, id);
    context.check(status === 'done', `A job of a server whose stderr is ${what} became ${status}`);
    await within('it stops', server.stop(), stopBound).catch(() =>
      context.violation(`A server whose stderr is ${what} does not stop`),
    );
  } finally {
    await server.kill();
  }
}

/** A full pipe that nobody reads. */
function fullPipe(context) {
  const fifo = path.join(context.scratch, `fifo-${context.serial()}`);
  execFileSync('mkfifo', [fifo]);
  const fd = openSync(fifo, constants.O_RDWR | constants.O_NONBLOCK);
  const fill = () => {
    try {
      for (;;) writeSync(fd, Buffer.alloc(4096, 10));
    } catch (cause) {
      if (cause.code !== 'EAGAIN') throw cause;
    }
  };
  // The server's end is blocking, like one from a shell.
  return { server: openSync(fifo, constants.O_RDWR), fill, close: () => closeSync(fd) };
}

export const lostOutputs = {
  async 'a full disk'(context, what) {
    const stderr = openSync('/dev/full', 'w');
    await livesOn(context, what, { stderr }).finally(() => closeSync(stderr));
  },
  'a pipe that was closed before the start': (context, what) =>
    livesOn(context, what, {
      launcher: ['bash', '-c', 'exec 2> >(exec true); sleep 0.2; exec "$@"', 'bash'],
    }),
  async 'a pipe that is closed while it runs'(context, what) {
    const server = path.join(context.scratch, `reader-${context.serial()}`);
    const reader = `while [ ! -e ${server} ]; do sleep 0.05; done`;
    await livesOn(
      context,
      what,
      { launcher: ['bash', '-c', `exec 2> >(${reader}); exec "$@"`, 'bash'] },
      async () => {
        writeFileSync(server, '');
        await delay(300);
      },
    );
  },
  async 'a full pipe that nobody reads'(context, what) {
    const pipe = fullPipe(context);
    pipe.fill();
    await livesOn(context, what, { stderr: pipe.server }).finally(() => pipe.close());
  },
  async 'a pipe that fills up while it runs'(context, what) {
    const pipe = fullPipe(context);
    await livesOn(context, what, { stderr: pipe.server }, pipe.fill).finally(() => pipe.close());
  },
  async 'a terminal that was closed'(context, what) {
    if (spawnSync('python3', ['--version']).status !== 0) {
      context.note('There is no python3 here: no terminal was closed under a server');
      return;
    }
    const { launcher, close } = terminalThatCloses(context);
    await livesOn(context, what, { launcher }, async () => {
      close();
      await until('the terminal is closed', () => delay(500, true));
    });
  },
};
