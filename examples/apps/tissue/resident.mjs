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
 * say to each other: docs/apps.md of remote-app, Resident apps.
 */
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { Writable } from 'node:stream';

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
 * well; an error ends it with 1, and its stack is in the log.
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
    answer({ job, exit_code: await runJob(() => run(model, rest.arguments), rest) });
    globalThis.gc?.();
  }
  // The server has closed stdin. What the model keeps open does not keep the program.
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

/** Runs one job in its directory and environment, and puts back what was there before. Resolves with its exit code. */
async function runJob(run, { arguments: words, directory, environment }) {
  const { argv, exit } = process;
  const [home, variables] = [process.cwd(), { ...process.env }];
  let end;
  const ended = new Promise((_, reject) => {
    end = reject;
  });
  // Errors that nobody waits for, such as those of a timer, end the job as well.
  process.on('uncaughtException', end);
  process.exit = (code) => {
    const exited = new Exit(code);
    end(exited);
    throw exited;
  };
  let code;
  try {
    process.chdir(directory);
    Object.assign(process.env, environment);
    process.argv = [...argv.slice(0, 2), ...words];
    await Promise.race([run(), ended]);
    code = process.exitCode ?? 0;
  } catch (error) {
    if (!(error instanceof Exit)) console.error(error);
    code = error instanceof Exit ? (error.code ?? process.exitCode ?? 0) : 1;
  }
  await Promise.all([process.stdout, process.stderr].map(leaves));
  process.off('uncaughtException', end);
  Object.assign(process, { argv, exit, exitCode: undefined });
  for (const name of Object.keys(process.env)) if (!Object.hasOwn(variables, name)) delete process.env[name];
  for (const [name, value] of Object.entries(variables))
    if (process.env[name] !== value) process.env[name] = value;
  process.chdir(home);
  return Number(code) & 0xff;
}
