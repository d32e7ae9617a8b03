/** The token appears only where it must, and only the server's user can read its files. */
import { chmodSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { file, formOf } from '../../support/form.mjs';
import { argumentsOf, environmentOf } from '../../support/processes.mjs';
import { ended, kill, logOf, request, steps, submit } from '../support/api.mjs';
import { remoteApp } from '../support/client.mjs';
import { apps, Server } from '../support/server.mjs';
import { until } from '../support/until.mjs';

const modeOf = (file) => lstatSync(file).mode & 0o777;

/** Everything under a directory, itself included. */
const below = (directory) => [
  directory,
  ...readdirSync(directory, { recursive: true }).map((name) => path.join(directory, name)),
];

/** Checks that no kind of answer, good or bad, contains the token or a guessed one. */
async function answers(context, server, guess) {
  const { token } = server;
  const seen = [];
  const ask = async (target, options = {}) => {
    const answer = await request(server, target, options);
    context.count('answers searched for the token');
    const all = `${answer.text} ${JSON.stringify([...answer.headers])}`;
    context.check(!all.includes(token) && !all.includes(guess), `${target} answers with a token: ${all}`);
    seen.push(answer);
    return answer;
  };
  const withToken = (given) => ({ headers: { authorization: given } });
  const routes = [
    '/health',
    '/ram',
    '/jobs',
    '/repo_apps_list',
    '/nothing',
    '/jobs/0123456789ab',
    `/jobs/${token}`,
  ];
  for (const target of routes.slice(0, 6)) {
    await ask(target);
    for (const given of [
      `Bearer ${guess}`,
      `Bearer ${token}x`,
      `Bearer ${token.slice(0, -1)}`,
      `Basic ${guess}`,
      guess,
    ]) {
      const { status } = await ask(target, withToken(given));
      context.check(status === 401, `${target} answers ${status} to a wrong token`);
      context.count('wrong tokens');
    }
  }
  const form = { inputs: file('scan.nii'), options: '{"x":1}' };
  await ask('/apps/rogue/infer', { method: 'POST', body: formOf(form) });
  await ask('/apps/nobody/infer', { method: 'POST', body: formOf(form) });
}

/** Checks the arguments and the environment of a job's processes. */
async function processes(context, server) {
  const id = await submit(server, 'rogue', 'infer', {
    inputs: file('scan.nii'),
    options: steps({ do: 'sleep' }),
  });
  const own = await until('runner and command run', () => {
    const found = server.processes();
    return found.length >= 2 ? found : null;
  });
  for (const { pid } of own) {
    const words = [...argumentsOf(pid), ...environmentOf(pid)].join('\n');
    context.check(
      !words.includes(server.token),
      `Process ${pid} of a job has the token: ${argumentsOf(pid)}`,
    );
    context.count('processes searched for the token');
  }
  const title = [...argumentsOf(server.pid), readFileSync(`/proc/${server.pid}/comm`, 'utf8')].join(' ');
  context.check(!title.includes(server.token), `The server's title has the token: ${title}`);
  await kill(server, id);
  await logOf(server, id);
}

/** Checks that the files on disk do not contain the token and that others cannot read them. */
function files(context, server, others) {
  const isPrivate = (directory) => modeOf(directory) === 0o700;
  const directories = [
    server.dataDirectory,
    server.jobsDirectory,
    ...server.jobDirectories().map((id) => server.jobDirectory(id)),
  ];
  for (const directory of directories) {
    context.check(isPrivate(directory), `${directory} has the mode ${modeOf(directory).toString(8)}`);
  }
  for (const each of [...below(server.dataDirectory), ...others]) {
    const stats = lstatSync(each, { throwIfNoEntry: false });
    if (!stats?.isFile()) continue;
    context.count('files searched for the token');
    const hasToken = readFileSync(each).includes(server.token);
    context.check(!hasToken, `${each} holds the token`);
  }
  const output = server.stdout + server.stderr;
  context.check(!output.includes(server.token), `The server printed the token: ${output}`);
}

/** Checks that the client never prints the token and that only its user can read its profile. */
async function client(context, server) {
  const home = path.join(context.scratch, 'home');
  mkdirSync(home);
  const scan = path.join(home, 'token');
  writeFileSync(scan, `${server.token}\n`);
  const environment = { HOME: home, XDG_CONFIG_HOME: path.join(home, 'config'), DEBUG: '*' };
  const run = async (words) => {
    const { stdout, stderr } = await remoteApp(context, words, { environment });
    context.count('commands searched for the token');
    const said = stdout + stderr;
    context.check(
      !said.includes(server.token),
      `remote-app ${words[0]} printed the token: ${said.slice(0, 300)}`,
    );
  };
  await run(['login', '--server', server.url, '--token-file', scan]);
  for (const words of [
    ['health'],
    ['jobs', '--json'],
    ['status', '0123456789ab', '--json'],
    ['apps'],
    ['infer', '/nowhere'],
  ]) {
    await run(words);
  }
  for (const each of below(path.join(home, 'config'))) {
    const isOpen = (modeOf(each) & 0o077) !== 0 && lstatSync(each).isFile();
    context.check(!isOpen, `${each} can be read by others: ${modeOf(each).toString(8)}`);
  }
}

export async function run(context) {
  const { random } = context;
  const [token, guess] = [random.word(40), random.word(40)];
  const dataDirectory = path.join(context.scratch, 'open-data');
  mkdirSync(dataDirectory);
  chmodSync(dataDirectory, 0o777);
  // The widest permissions that a shell could set by default.
  const launcher = ['sh', '-c', 'umask 000; exec "$@"', 'sh'];
  const environment = { SECOND_TOKEN: token };
  const flags = ['--token-env', 'SECOND_TOKEN'];
  const server = new Server(context, {
    dataDirectory,
    apps: [apps.rogue],
    token,
    launcher,
    environment,
    flags,
  });
  await server.start();
  try {
    await answers(context, server, guess);
    await processes(context, server);
    const id = await submit(server, 'rogue', 'infer', {
      inputs: file('scan.nii'),
      options: steps({ do: 'quick' }),
    });
    await ended(server, id);
    await client(context, server);
    files(context, server, []);
  } finally {
    await server.close();
  }
}
