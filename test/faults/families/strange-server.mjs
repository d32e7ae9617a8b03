/** The client with a server that gives wrong answers. It ends in time, with a clear message. */
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { times } from '../context.mjs';
import { memoryOf } from '../support/processes.mjs';
import { bin } from '../support/server.mjs';
import { answers, StrangeServer } from './strange-server/answers.mjs';

const id = 'abcdef012345';

const infer = ['infer', 'scan.nii', '--app', 'app', '--patience', '5'];

/** Every command of a client, with short time limits where it has flags for them. */
const commands = {
  health: () => ['health'],
  gpus: () => ['gpus'],
  jobs: () => ['jobs'],
  status: () => ['status', id],
  logs: () => ['logs', id, '--patience', '5'],
  kill: () => ['kill', id],
  apps: () => ['apps'],
  'apps app': () => ['apps', 'app'],
  result: (_context, output) => ['result', id, '--wait', '2', '--patience', '5', '-o', output],
  infer: (_context, output) => [...infer, '--wait', '2', '-o', output],
  'infer --detach': () => [...infer, '--detach'],
  login: (context) => ['login', '--token-file', 'token', '--profile', `profile${context.serial()}`],
  'jobs --json': () => ['jobs', '--json'],
  'status --json': () => ['status', id, '--json'],
};

/** Seconds in which every command must end, whatever the server answers. */
const bound = 40;
/** Characters of each output that are kept. */
const kept = 100_000;

/** Runs `remote-app` and watches its memory. */
async function runClient(context, words, url) {
  const child = spawn(process.execPath, [bin, ...words, '--server', url], {
    cwd: context.scratch,
    env: { HOME: context.scratch, PATH: process.env.PATH, CI: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let memory = 0;
  let [output, errors] = ['', ''];
  child.stdout.on('data', (piece) => {
    if (output.length < kept) output += piece;
  });
  child.stderr.on('data', (piece) => {
    if (errors.length < kept) errors += piece;
  });
  const watch = setInterval(() => {
    memory = Math.max(memory, memoryOf(child.pid, 'VmHWM'));
  }, 25);
  let isLate = false;
  const end = setTimeout(() => {
    isLate = true;
    child.kill('SIGKILL');
  }, bound * 1000);
  const code = await new Promise((resolve) => child.once('close', resolve));
  clearInterval(watch);
  clearTimeout(end);
  return { code, output, errors, memory, seconds: bound, isLate };
}

const casesInTenRounds = 60;
const atOnce = 3;
const memoryBound = 400 * 2 ** 20;
const documented = [1, 2, 3, 4, 5, 6, 130];

/** Text that users must never see, such as a stack trace. */
const gibberish =
  /\bundefined\b|\bNaN\b|Cannot read propert|\[object |is not a function|is not iterable|^\s+at .*:\d+|Unexpected token|ZodError|Invalid time value/m;

/** Cases that are tried in every run, however short. */
const always = [
  ['health', 'an empty object'],
  ['status', 'an empty object'],
  ['kill', 'an empty object'],
  ['gpus', 'an empty object'],
  ['infer', 'an empty object'],
  ['jobs', 'an empty list'],
  ['jobs', '700 MB of JSON'],
  ['logs', 'a log line of 100 MB'],
  ['result', 'an archive behind which the connection is closed'],
];

async function meet(context, command, strangeness) {
  const { answer, isFine = false, only } = answers[strangeness];
  if (only !== undefined && !only.includes(command)) return;
  const server = await StrangeServer.start(context, answer);
  const what = `'remote-app ${command}' before ${strangeness}`;
  context.count('strange answers');
  try {
    const directory = path.join(context.scratch, `out-${context.serial()}`);
    const words = commands[command](context, directory);
    const { code, output, errors, memory, seconds, isLate } = await runClient(context, words, server.url);
    context.highest('memory of a client before a strange server', memory, 'bytes');
    context.check(!isLate, `${what} did not end within ${seconds} s; it had said: ${errors.slice(-200)}`);
    const mebibytes = (memory / 2 ** 20).toFixed(0);
    context.check(memory <= memoryBound, `${what} took ${mebibytes} MiB of memory`);
    if (isLate) return;
    const said = output + errors;
    const found = gibberish.exec(said)?.[0];
    context.check(found === undefined, `${what} says '${found?.trim()}': ${said.slice(0, 250)}`);
    if (code === 0 && isFine) return;
    context.check(documented.includes(code), `${what} ended with exit code ${code}: ${said.slice(0, 150)}`);
    if (code === 0 || isFine) return;
    const isNamed = said.includes(new URL(server.url).host);
    context.check(isNamed, `${what} does not name the server: ${said.slice(0, 250)}`);
  } finally {
    server.close();
  }
}

export async function run(context) {
  const { random, rounds } = context;
  writeFileSync(path.join(context.scratch, 'scan.nii'), 'voxels');
  writeFileSync(path.join(context.scratch, 'token'), 'a-token\n');
  const all = Object.keys(commands).flatMap((command) => Object.keys(answers).map((each) => [command, each]));
  const cases = [...always, ...random.shuffle(all).slice(0, times(rounds, casesInTenRounds))];
  const inTurn = async () => {
    for (let next = cases.shift(); next !== undefined; next = cases.shift()) {
      const [command, strangeness] = next;
      await context.attempt(`'remote-app ${command}' before ${strangeness}`, () =>
        meet(context, command, strangeness),
      );
    }
  };
  await Promise.all(Array.from({ length: atOnce }, inTurn));
}
