import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ended, logOf, request } from '../../support/api.mjs';
import { remoteApp } from '../../support/client.mjs';
import { plant, step } from '../../support/plan.mjs';

/** Words that tell a person that a file did not arrive unchanged. */
const saysSo =
  /skip|renam|left out|leave|could not|cannot|omit|unread|not (packed|extracted|saved|taken|carried)/i;

/** Files below a directory: content by path, the path as latin1 text, so that each byte of a name counts. */
function extracted(directory, below = '') {
  const found = new Map();
  for (const entry of readdirSync(directory, { withFileTypes: true, encoding: 'buffer' })) {
    const at = Buffer.concat([directory, Buffer.from('/'), entry.name]);
    const name = below + entry.name.toString('latin1');
    if (entry.isDirectory()) for (const [key, value] of extracted(at, `${name}/`)) found.set(key, value);
    else if (entry.isFile()) found.set(name, readFileSync(at, 'latin1'));
    else found.set(name, null);
  }
  return found;
}

const directoriesOf = (files) =>
  new Set(files.map(({ name }) => name.toString('latin1').split('/').slice(0, -1).join('/')).filter(Boolean));

/** A job leaves files of these names; the real client fetches them. */
export async function carryCase(context, server, home, what, make) {
  context.count(`a result with ${what}`);
  const { random } = context;
  const secret = path.join(home, `secret-${context.serial()}`);
  const hidden = `hidden ${random.word(30)}`;
  mkdirSync(secret);
  writeFileSync(path.join(secret, 'secret'), hidden);
  const { files, steps = [] } = make({ random, secret });
  for (const each of files) each.content = `content ${random.word(30)}`;
  const plan = [
    ...[...directoriesOf(files)].map((name) => step.directory(Buffer.from(name, 'latin1'))),
    ...files.map(({ name, content }) => step.file(name, content)),
    ...steps,
  ];
  const id = await plant(context, server, home, plan);
  const view = await ended(server, id, 40_000);
  if (view.status !== 'done') {
    context.violation(`A job whose result has ${what} ended as ${view.status}: ${view.error}`);
    return;
  }
  const output = path.join(context.scratch, `fetched-${context.serial()}`);
  const { code, stdout, stderr } = await remoteApp(context, ['result', id, '--output', output], {
    url: server.url,
  });
  const log = (await logOf(server, id)).join('\n');
  const arrived = extracted(Buffer.from(output));
  const contents = new Set(arrived.values());
  const isSaid = saysSo.test(stderr) || saysSo.test(log);
  const lacking = files.filter(({ name, content, isExact }) => {
    if (arrived.get(name.toString('latin1')) === content) return false;
    return isExact || !(contents.has(content) || isSaid);
  });
  const names = lacking.map(({ name }) => JSON.stringify(name.toString('latin1').slice(0, 60)));
  context.check(
    lacking.length === 0,
    `Of a result with ${what}, ${lacking.length} of ${files.length} files did not arrive as they were: ${names.slice(0, 5).join(', ')}; the client ended with ${code}: ${stderr.slice(-300)}`,
  );
  context.check(
    code === 0 || lacking.length > 0,
    `A result with ${what} ended the client with ${code}: ${stderr}`,
  );
  const raw = await request(server, `/jobs/${id}/result`);
  const all = [
    stdout,
    stderr,
    log,
    raw.bytes.toString('latin1'),
    ...[...contents].filter((each) => each !== null),
  ];
  const isTold = all.some((text) => text.includes(hidden)) || contents.has(hidden);
  context.check(!isTold, `A result with ${what} holds a file from outside of the job`);
}
