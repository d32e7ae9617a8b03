/**
 * Makes an app resident: the server starts it once, it loads its model once, and then it runs job after job.
 *
 *     import { serve } from './resident.mjs';
 *
 *     async function load() {}                   // once: resolves with the model
 *     async function run(model, words) {}        // for each job: `words` is what process.argv.slice(2) is
 *
 *     await serve(load, run);
 *
 * The same program still runs one job from its command line. Needs Node 18 and nothing else. What the server and this file
 * say to each other: docs/resident.md of remote-app.
 */
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { Writable } from 'node:stream';
import { setTimeout as delay, setImmediate } from 'node:timers/promises';

/** Milliseconds that what a failed job has started may go on before the program is ended with it. */
const patience = 1000;

/** What process.exit throws while a job runs, since it shall end the job alone. */
class Exit extends Error {
  constructor(code) {
    super(`process.exit(${code ?? ''})`);
    this.code = code;
  }
}

/**
 * Runs the job of the command line, or each job that comes where the server started the program with `resident`.
 * A job succeeds when `run` resolves. process.exit ends the job alone, with that exit code, and process.exitCode counts as
 * well; an error ends it with 1, and its stack is in the log. If something of a job that failed goes on, such as a second case
 * that runs at the same time, the program ends with the job, and the server starts it again for the next one.
 */
export async function serve(load, run) {
  const words = process.argv.slice(2);
  if (words[0] !== 'resident') return void (await run(await load(), words));
  const { jobs, answer } = openChannels();
  const exit = process.exit;
  const model = await load();
  answer({ ready: true });
  for await (const line of linesOf(jobs)) {
    const { job, ...rest } = JSON.parse(line);
    const { code, isOver } = await runJob(() => run(model, rest.arguments), rest, jobs);
    answer({ job, exit_code: code, ...(isOver ? {} : { last: true }) });
    if (!isOver) break;
    globalThis.gc?.();
  }
  // The server has closed stdin, or the last job goes on. What the model keeps open does not keep the program.
  exit(0);
}

/** Where the jobs come from and the answers go. Nothing else can use them: not the app, and no process that it starts. */
function openChannels() {
  const name = process.env.REMOTE_APP_ANSWERS;
  if (!name) {
    console.error(
      'Only the server starts this program with `resident`. By hand it runs one job: infer APP --output ...',
    );
    process.exit(1);
  }
  delete process.env.REMOTE_APP_ANSWERS;
  const answers = openSync(name, constants.O_WRONLY);
  const [, inherited] = /^\/dev\/fd\/(\d+)$/.exec(name) ?? [];
  if (inherited) closeSync(Number(inherited));
  const jobs = new Socket({ fd: openSync('/dev/fd/0', 'r'), readable: true, writable: false });
  closeSync(0);
  openSync('/dev/null', 'r'); // the lowest free number: the app's stdin
  return { jobs, answer: (value) => writeSync(answers, `${JSON.stringify(value)}\n`) };
}

/** Lines of JSON. Not by node:readline, which also cuts at line ends that a file name may hold. */
async function* linesOf(stream) {
  let rest = '';
  for await (const text of stream.setEncoding('utf8')) {
    const lines = (rest + text).split('\n');
    rest = lines.pop();
    yield* lines;
  }
}

/**
 * Resolves when all that was printed to a stream up to now has left the process: Node keeps what a full pipe does not take.
 * Uses the method of Node itself, since a job may have put one of its own in its place.
 */
function leaves(stream) {
  if (stream.writableLength === 0 || !stream.writable) return;
  return new Promise((resolve) => Writable.prototype.write.call(stream, '', () => resolve()));
}

/**
 * Notes the first error of a job. Those that nobody waits for, such as an error of a timer, count as well, and so does
 * process.exit, which throws.
 */
function watchFailure() {
  const { exit } = process;
  const watch = { failure: undefined };
  watch.failed = new Promise((resolve) => {
    watch.fail = (error) => {
      watch.failure ??= { error };
      resolve();
    };
  });
  process.on('uncaughtException', watch.fail);
  process.exit = (code) => {
    const exited = new Exit(code);
    watch.fail(exited);
    throw exited;
  };
  watch.end = () => {
    process.off('uncaughtException', watch.fail);
    process.exit = exit;
  };
  return watch;
}

/** The exit code of a job, as Node would end with it. */
function exitCodeOf(failure) {
  let code = process.exitCode;
  if (failure?.error instanceof Exit) code = failure.error.code ?? code;
  else if (failure) {
    console.error(failure.error);
    code = 1;
  }
  return Number(code ?? 0) & 0xff;
}

/**
 * Resolves with whether nothing goes on, soon enough: Node then has nothing to wait for but the next job. What the model keeps
 * open, such as a worker thread, counts as well, since nobody can tell what it belongs to.
 */
async function becomesIdle(jobs) {
  let tell;
  const idle = new Promise((resolve) => {
    tell = () => resolve(setImmediate(true));
  });
  process.once('beforeExit', tell);
  jobs.unref();
  const isIdle = await Promise.race([idle, delay(patience, false, { ref: false })]);
  jobs.ref();
  process.off('beforeExit', tell);
  return isIdle;
}

/**
 * Runs one job in its directory and environment, and puts back what was there before. Resolves with its exit code, and with
 * whether it is over.
 */
async function runJob(run, { arguments: words, directory, environment }, jobs) {
  const { argv } = process;
  const [home, variables] = [process.cwd(), { ...process.env }];
  const watch = watchFailure();
  try {
    process.chdir(directory);
    Object.assign(process.env, environment);
    process.argv = [...argv.slice(0, 2), ...words];
    await Promise.race([run(), watch.failed]);
    // Node tells of a rejection that nobody handles after this turn.
    await setImmediate();
  } catch (error) {
    watch.fail(error);
  }
  const code = exitCodeOf(watch.failure);
  const isOver = !watch.failure || (await becomesIdle(jobs));
  await Promise.all([process.stdout, process.stderr].map(leaves));
  watch.end();
  if (!isOver) return { code, isOver };
  Object.assign(process, { argv, exitCode: undefined });
  for (const name of Object.keys(process.env)) if (!Object.hasOwn(variables, name)) delete process.env[name];
  for (const [name, value] of Object.entries(variables))
    if (process.env[name] !== value) process.env[name] = value;
  process.chdir(home);
  return { code, isOver };
}
