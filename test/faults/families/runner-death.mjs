/** The runner and the command die or misbehave. Each job ends correctly and within its limits, and leaves nothing behind. */
import { closeSync, openSync, readFileSync, readSync, statSync } from 'node:fs';
import path from 'node:path';
import { file } from '../../support/form.mjs';
import { unzip } from '../../support/unzip.mjs';
import { times } from '../context.mjs';
import { checkProcesses } from '../invariants.mjs';
import { ended, job, kill, logOf, request, steps, submit } from '../support/api.mjs';
import { memoryOf } from '../support/processes.mjs';
import { apps, Server } from '../support/server.mjs';
import { until, within } from '../support/until.mjs';

const mebibyte = 2 ** 20;
/** Redraws: a burst of 1000, then 20 a second; the command takes two seconds, or more on a slow machine. */
const redrawBound = 1000 + 20 * 120;

/** Cases that end by themselves; `look` takes the log's lines of the app. */
const programs = {
  signal: {
    error: /^The command was killed, and not by this service: the server may have run out of memory \(/,
  },
  fork: {},
  stray: {},
  bare: {},
  close: {
    look: async (context, server, id) => {
      const { bytes } = await request(server, `/jobs/${id}/result`);
      context.check(String(unzip(bytes).get('answer')) === 'went on', "What 'close' wrote is not its result");
    },
  },
  fill: {
    look: (context, _server, _id, lines) => {
      const length = lines.slice(1).reduce((sum, line) => sum + line.length, 0);
      context.check(length === 5 * mebibyte, `The log of 'fill' has ${length} characters of its line`);
    },
  },
  longline: {
    look: (context, _server, _id, lines) => {
      const length = lines.slice(1, -1).reduce((sum, line) => sum + line.length, 0);
      context.check(length === 100 * mebibyte, `The log of 'longline' has ${length} characters of its line`);
      context.check(
        lines.at(-1) === 'the last line',
        `The log of 'longline' ends with '${lines.at(-1)?.slice(0, 50)}'`,
      );
    },
  },
  redraw: {
    look: (context, _server, _id, lines) => {
      context.check(lines.length <= redrawBound, `The log of 'redraw' has ${lines.length} lines`);
      context.check(lines.includes('step 20000'), "The log of 'redraw' lacks the last redraw");
    },
  },
  bytes: {
    look: (context, _server, _id, lines) =>
      context.check(
        lines.slice(1).join('|') === '\ufffd\ufffd\ufffd|\ufffd(\0\x1b[31m|\ufffd',
        `The log of 'bytes' is ${JSON.stringify(lines)}`,
      ),
  },
  markers: {
    look: (context, _server, _id, lines) =>
      context.check(
        lines.slice(1, 4).join('|') === ' __DONE__| __ERROR__ of the app|data: __DONE__' &&
          lines.at(-1) === 'the last line',
        `The log of 'markers' is ${JSON.stringify(lines)}`,
      ),
  },
};

/** Bytes of memory that a runner may need, whatever the command prints. */
const memoryBound = 256 * mebibyte;
/** The start of a log that is kept, its tail of 64 Ki characters (of up to 4 bytes), and the line between them. */
const logBound = 256 * mebibyte + 4 * 65_536 + 1024;
/** Cases side by side: most of them wait for a grace of three seconds. */
const lanes = 4;

const appLines = (log) => log.slice(0, -1).filter((line) => !line.startsWith('[remote-app] '));

/** A log may grow to 256 MiB while the harness waits for its first lines. */
function beginningOf(log) {
  const fd = openSync(log, 'r');
  try {
    const bytes = Buffer.alloc(4096);
    return bytes.toString('utf8', 0, readSync(fd, bytes, 0, bytes.length, 0));
  } finally {
    closeSync(fd);
  }
}

async function start(server, deed) {
  const form = { inputs: file('scan.nii'), options: steps({ do: deed }) };
  const id = await submit(server, 'rogue', 'infer', form);
  const log = path.join(server.jobDirectory(id), 'log');
  await until(`'${deed}' begins`, () => beginningOf(log).includes(`rogue ${deed}\n`));
  return id;
}

/** The process that runs a job. */
function runnerOf(server, id) {
  const record = readFileSync(path.join(server.jobDirectory(id), 'runner.json'), 'utf8');
  return JSON.parse(record).runner.pid;
}

/** Waits for the end, and measures the runner's memory meanwhile. */
async function runToEnd(context, server, id, deed) {
  const runner = runnerOf(server, id);
  let peak = 0;
  const view = await until(
    `'${deed}' ends`,
    async () => {
      peak = Math.max(peak, memoryOf(runner, 'VmHWM'));
      const now = await job(server, id);
      return now.finished_at === null ? null : now;
    },
    180_000,
  );
  context.highest('peak memory of a runner', peak, 'bytes');
  context.check(peak <= memoryBound, `The runner of '${deed}' took ${(peak / mebibyte).toFixed(0)} MiB`);
  return view;
}

/** Checks how the job ended, and that its log says so. */
async function checkEnd(context, server, id, deed, view, status, error) {
  const isRight =
    view.status === status && (error === null ? view.error === null : error.test(view.error ?? ''));
  context.check(isRight, `'${deed}' ended as ${view.status}: ${view.error}`);
  const { size } = statSync(path.join(server.jobDirectory(id), 'log'));
  context.highest('largest log', size, 'bytes');
  context.check(size <= logBound, `The log of '${deed}' has ${size} bytes`);
  await checkProcesses(context, server);
}

async function runProgram(context, server, deed) {
  const { error = null, look } = programs[deed];
  const id = await start(server, deed);
  const view = await runToEnd(context, server, id, deed);
  await checkEnd(context, server, id, deed, view, error === null ? 'done' : 'error', error);
  if (look) await look(context, server, id, appLines(await logOf(server, id)));
}

/** Its log has 256 MiB, so only the end is read, from the disk. */
async function runGigabyte(context, server) {
  const id = await start(server, 'gigabyte');
  await checkEnd(
    context,
    server,
    id,
    'gigabyte',
    await runToEnd(context, server, id, 'gigabyte'),
    'done',
    null,
  );
  const log = path.join(server.jobDirectory(id), 'log');
  const tail = readFileSync(log).subarray(-200).toString();
  context.check(
    /the last line\n\[remote-app\] Result: /.test(tail),
    `The log of 'gigabyte' ends with ${tail}`,
  );
  await kill(server, id);
}

/** Cases that run until they are killed. */
const endless = ['sleep', 'stubborn', 'herd', 'stop', 'become'];

async function killByUser(context, server, deed) {
  const id = await start(server, deed);
  const reply = await within(`the kill of '${deed}' is answered`, kill(server, id));
  context.check(reply.status === 'killed', `The kill of '${deed}' left it ${reply.status}`);
  await checkEnd(context, server, id, deed, await job(server, id), 'killed', /^Killed by user$/);
}

async function killRunner(context, server, deed, signal) {
  const id = await start(server, deed);
  process.kill(runnerOf(server, id), signal);
  const view = await ended(server, id);
  const error =
    signal === 'SIGKILL'
      ? /runner of this job was killed/
      : /exit code 143, SIGTERM|^The command was killed, and not by this service/;
  await checkEnd(context, server, id, `${deed}, its runner ended by ${signal}`, view, 'error', error);
  const lines = appLines(await logOf(server, id));
  context.check(
    lines[0] === `rogue ${deed}`,
    `The log of '${deed}' lacks what came before its runner's death`,
  );
}

/** Every case once: the kind that is counted, the deed, and the function that runs it. */
const cases = [
  ...Object.keys(programs).map((deed) => ['a command misbehaves', deed, runProgram]),
  ...endless.map((deed) => ['a command is killed', deed, killByUser]),
  ...endless
    .filter((deed) => deed !== 'stop')
    .map((deed) => ['a runner is killed', deed, (...given) => killRunner(...given, 'SIGKILL')]),
  ['a runner is asked to end', 'sleep', (...given) => killRunner(...given, 'SIGTERM')],
];

export async function run(context) {
  const server = new Server(context, { apps: [apps.rogue], gpus: lanes });
  await server.start();
  const all = Array.from({ length: times(context.rounds, 2) }, () => context.random.shuffle(cases)).flat();
  all.unshift(['a command prints a gigabyte', 'gigabyte', runGigabyte]);
  const lane = async () => {
    for (let next = all.shift(); next !== undefined; next = all.shift()) {
      const [kind, deed, runCase] = next;
      context.count(kind);
      await context.attempt(`${kind}: '${deed}'`, () => runCase(context, server, deed));
    }
  };
  try {
    await Promise.all(Array.from({ length: lanes }, lane));
  } finally {
    await server.close();
  }
}
