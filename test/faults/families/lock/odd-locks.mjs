import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { file } from '../../../support/form.mjs';
import { ended, submit } from '../../support/api.mjs';
import { Server } from '../../support/server.mjs';

const startBound = 30_000;

/** A data directory with something at serve.lock. */
function prepared(context, make) {
  const server = new Server(context, {});
  mkdirSync(server.dataDirectory, { mode: 0o700 });
  make(path.join(server.dataDirectory, 'serve.lock'));
  return server;
}

/** A start on it must work; if it may be refused, the message must name what is wrong. */
async function starts(context, what, make, mayRefuse = false) {
  const server = prepared(context, make);
  context.count('starts on an odd serve.lock');
  server.mayEnd = true;
  server.spawn();
  try {
    await server.listening(startBound);
  } catch (cause) {
    const isClear = cause.message.includes(server.dataDirectory) && !/\n\s+at /.test(cause.message);
    context.check(mayRefuse && isClear, `With a serve.lock ${what} serve does not start: ${cause.message}`);
    await server.close();
    return;
  }
  server.mayEnd = false;
  await ended(server, await submit(server, 'witness', 'infer', { inputs: file('scan.nii') }));
  await server.close();
}

const holding = (content) => (context, what) =>
  starts(context, what, (lock) => writeFileSync(lock, content(context)));

const cases = {
  'of 0 bytes': holding(() => ''),
  'of noise': holding(({ random }) => random.bytes(random.integer(1, 5000))),
  'of null': holding(() => 'null'),
  'of {}': holding(() => '{}'),
  'of half a record': holding(() => '{"pid":1'),
  'of 20 MiB': holding(() => Buffer.alloc(20 * 2 ** 20, '[')),
  'of a pid that is no pid': holding(({ random }) =>
    random.pick(['{"pid":-1}', '{"pid":"1"}', '{"pid":1e99}', '-1', '0']),
  ),
  async 'of another process that lives'(context, what) {
    const sleeper = spawn('sleep', ['600'], { stdio: 'ignore' });
    const { pid } = sleeper;
    const content = context.random.pick([`${pid}`, `{"pid":${pid}}`, `{"pid":${pid},"startTime":"1"}`]);
    try {
      await starts(context, what, (lock) => writeFileSync(lock, content));
      context.check(
        sleeper.exitCode === null && sleeper.signalCode === null,
        'A start ended a process that it found named in serve.lock',
      );
    } finally {
      sleeper.kill('SIGKILL');
    }
  },
  'that is a directory': (context, what) =>
    starts(context, what, (lock) => mkdirSync(path.join(lock, 'below'), { recursive: true }), true),
  'that is a pipe': (context, what) => starts(context, what, (lock) => execFileSync('mkfifo', [lock]), true),
  async 'that is a link to a file elsewhere'(context, what) {
    const victim = path.join(context.scratch, `victim-${context.serial()}`);
    writeFileSync(victim, 'keep me');
    await starts(context, what, (lock) => symlinkSync(victim, lock), true);
    const isWhole = existsSync(victim) && readFileSync(victim, 'utf8') === 'keep me';
    context.check(isWhole, 'A start changed the file that serve.lock was a link to');
  },
  async 'that is a link to nothing'(context, what) {
    const victim = path.join(context.scratch, `nothing-${context.serial()}`);
    await starts(context, what, (lock) => symlinkSync(victim, lock), true);
    context.check(!existsSync(victim), 'A start made the file that serve.lock was a link to');
  },
};

/** What may be at serve.lock, each with a start on it. */
export const oddLocks = Object.fromEntries(
  Object.entries(cases).map(([what, runCase]) => [what, (context) => runCase(context, what)]),
);
