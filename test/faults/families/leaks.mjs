/** Information that the server must not reveal: hidden files of an app, paths of the machine in errors. */
import { rmSync } from 'node:fs';
import path from 'node:path';
import { file } from '../../support/form.mjs';
import { unzip } from '../../support/unzip.mjs';
import { ended, job, json, listJobs, logOf, request, steps, submit, trySubmit } from '../support/api.mjs';
import { apps, product, Server } from '../support/server.mjs';
import { brokenApps, secret, temptingApp } from './leaks/broken-apps.mjs';
import { damages } from './leaks/damages.mjs';

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

/** A running job's directory is damaged; no answer about it names a path. */
async function damaged(context, server, what, damage) {
  const gate = path.join(context.scratch, `gate-${context.serial()}-`);
  const id = await submit(server, 'witness', 'infer', { inputs: file('scan.nii'), options: steps({ gate }) });
  const directory = server.jobDirectory(id);
  await damage(directory, gate);
  const view = await ended(server, id, 15_000).catch(() => job(server, id));
  checkText(context, `A job with ${what}`, JSON.stringify(view));
  for (const route of ['', '/result', '/logs']) {
    const { status, text } = await request(server, `/jobs/${id}${route}`, { limit: 10_000 }).catch(() => ({
      status: 0,
      text: '',
    }));
    if (status !== 200) checkText(context, `${route} of a job with ${what}`, text);
  }
  await request(server, `/jobs/${id}/kill`, { method: 'POST', limit: 15_000 }).then(
    ({ text }) => checkText(context, `The kill of a job with ${what}`, text),
    () => {},
  );
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
    for (const [what, damage] of random.shuffle(Object.entries(damages))) {
      await context.attempt(`A job with ${what}`, () => damaged(context, server, what, damage));
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
