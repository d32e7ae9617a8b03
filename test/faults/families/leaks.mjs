/** Information that the server must not reveal: hidden files of an app, and paths of the machine in errors. */
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { file } from '../../support/form.mjs';
import { unzip } from '../../support/unzip.mjs';
import { ended, job, json, listJobs, logOf, request, steps, trySubmit } from '../support/api.mjs';
import { apps, product, Server } from '../support/server.mjs';

/** A text that no answer may contain. */
const secret = 'a-secret-that-nobody-is-told';

const manifest = (command) =>
  JSON.stringify({
    display_name: 'App',
    description: 'An app.',
    short_description: 'App',
    tta: 0,
    mc_dropout: 0,
    command,
  });

function write(directory, files) {
  for (const [name, content] of Object.entries(files)) {
    const target = path.join(directory, name);
    mkdirSync(path.dirname(target), { recursive: true });
    writeFileSync(target, content);
  }
}

/** An app with all kinds of files that must not be sent. */
function temptingApp(context, directory) {
  const outside = path.join(context.scratch, 'outside');
  write(outside, { id_rsa: secret, 'folder/deep': secret });
  const hidden = [
    '.env',
    '.env.local',
    '.git/config',
    '.ssh/id_rsa',
    'nested/.hidden/key',
    'nested/deep/.env',
    '.netrc',
  ];
  const weights = ['model.pt', 'nested/MODEL.PTH', 'a.ckpt', 'a.onnx', 'a.safetensors', 'a.bin', 'a.h5'];
  write(directory, {
    'app.json': manifest(['sh', '-c', 'true']),
    'Prediction.yml': 'a: 1',
    'nested/More.yml': 'b: 2',
    ...Object.fromEntries([...hidden, ...weights].map((name) => [name, secret])),
  });
  symlinkSync(path.join(outside, 'id_rsa'), path.join(directory, 'key.yml'));
  symlinkSync(path.join(outside, 'folder'), path.join(directory, 'folder'));
  symlinkSync('.env', path.join(directory, 'visible.yml'));
  symlinkSync('../../outside', path.join(directory, 'nested', 'up'));
}

/** Apps that cannot run, each for another reason; returns their names. */
function brokenApps(folder) {
  const apps = {
    missing: { 'app.json': manifest(['no-such-program-anywhere']) },
    folder: { 'app.json': manifest(['run']), 'run/file': '' },
    forbidden: { 'app.json': manifest(['main']), main: '#!/bin/sh\n' },
    interpreter: { 'app.json': manifest(['main.sh']), 'main.sh': '#!/no/such/interpreter\n' },
    binary: { 'app.json': manifest(['main.out']), 'main.out': '\x7fELF broken' },
    json: { 'app.json': '{"display_name": ' },
    list: { 'app.json': '[]' },
    empty: { 'app.json': '' },
    types: { 'app.json': JSON.stringify({ display_name: 1, description: [], command: 'sh' }) },
    manifest: { 'app.json/file': '' },
    models: {
      'app.json': JSON.stringify({ ...JSON.parse(manifest(['sh'])), models: ['../outside/model'] }),
    },
  };
  for (const [name, files] of Object.entries(apps)) write(path.join(folder, name), files);
  return Object.keys(apps);
}

/** A path of this machine. An app may print paths itself. */
function pathIn(context, text) {
  const known = [
    context.scratch,
    product,
    apps.witness,
    '/usr/',
    '/home/',
    '/root/',
    '/tmp/',
    '/etc/',
    'node_modules',
  ];
  const escaped = text.replaceAll('\\/', '/');
  return known.find((each) => escaped.includes(each)) ?? /\s\/(?:[\w.-]+\/)+[\w.-]+/.exec(escaped)?.[0];
}

/** Checks that a text of the server contains no path and no stack. */
function checkText(context, what, text) {
  context.count('texts searched for paths');
  const found = pathIn(context, text);
  context.check(found === undefined, `${what} shows a path of the server (${found}): ${text.slice(0, 250)}`);
  context.check(!/\n\s+at .*:\d+/.test(text), `${what} shows a stack: ${text.slice(0, 250)}`);
}

/** The config files of an app with secrets beside them. */
async function config(context, server) {
  const { status, bytes, text } = await request(server, '/repo_apps_config/tempting');
  if (status !== 200) {
    checkText(context, 'The refusal of an app’s config files', text);
    return;
  }
  const files = unzip(bytes);
  context.check(
    files.has('app.json') && files.has('Prediction.yml'),
    'The config files of an app are not in its archive',
  );
  for (const [name, content] of files) {
    context.count('config files looked at');
    const isSecret = content.includes(secret);
    const isHidden = name.split('/').some((part) => part.startsWith('.'));
    context.check(!isSecret && !isHidden, `/repo_apps_config serves ${name}`);
    context.check(
      !/\.(pt|pth|ckpt|onnx|safetensors|bin|h5)$/i.test(name),
      `/repo_apps_config serves the weights ${name}`,
    );
  }
}

/** Each broken app: its reason, its refusal, the error and the log of its job. */
async function broken(context, server, name) {
  const form = { inputs: file('scan.nii'), options: steps({ lines: 1 }) };
  for (const route of [`/repo_apps/${name}`, `/repo_apps_config/${name}`]) {
    const { text, headers } = await request(server, route).catch((cause) => {
      throw new Error(`${route} broke off: ${cause.message}`);
    });
    if (/json/.test(headers.get('content-type'))) checkText(context, `${route}`, text);
  }
  const answer = await trySubmit(server, name, 'infer', form);
  if (answer.status !== 200) return checkText(context, `The refusal of the app '${name}'`, answer.text);
  const { job_id: id } = JSON.parse(answer.text);
  await ended(server, id);
  await checkJob(context, server, id, `a job of the app '${name}'`);
}

async function checkJob(context, server, id, what) {
  const view = await job(server, id);
  checkText(context, `The state of ${what}`, JSON.stringify(view));
  const own = (await logOf(server, id)).filter((line) => /^\[remote-app\]|^__ERROR__/.test(line));
  checkText(context, `The log of ${what}`, own.join('\n'));
  for (const query of ['', '?partial=1']) {
    const { status, text } = await request(server, `/jobs/${id}/result${query}`);
    if (status !== 200) checkText(context, `The result of ${what}`, text);
  }
}

export async function run(context) {
  const { random } = context;
  const folder = path.join(context.scratch, 'apps');
  const names = brokenApps(folder);
  temptingApp(context, path.join(folder, 'tempting'));
  const server = new Server(context, {
    apps: [...names, 'tempting'].map((name) => path.join(folder, name)).concat(apps.witness),
  });
  server.mayEnd = true;
  await server.start();
  server.mayEnd = false;
  try {
    await context.attempt('The config files of an app', () => config(context, server));
    for (const name of random.shuffle(names)) {
      await context.attempt(`The app '${name}'`, () => broken(context, server, name));
    }
    // The whole directory is removed while the server runs.
    rmSync(folder, { recursive: true });
    for (const name of ['tempting', names[0]]) {
      await context.attempt('An app that was removed', () => broken(context, server, name));
    }
    checkText(context, '/repo_apps_list', JSON.stringify(await json(server, '/jobs')));
    await listJobs(server);
  } finally {
    await server.close();
  }
}
