/** JSON submissions, which name uploads: right ones are run, and of malformed, hostile and cut ones nothing is left. */
import { createHash } from 'node:crypto';
import { requestHead } from '../../support/multipart.mjs';
import { unzip } from '../../support/unzip.mjs';
import { times } from '../context.mjs';
import { checkDirectories } from '../invariants.mjs';
import { checkIsUp, killAll } from '../support/aftermath.mjs';
import { beginUpload, ended, kill, listJobs, request } from '../support/api.mjs';
import { Connection } from '../support/connection.mjs';
import { Server } from '../support/server.mjs';
import { mutateBytes } from './input/mutations.mjs';
import { nastyValues } from './input/nasty.mjs';

const target = '/apps/witness/infer';
const content = 'the content of an upload';
const name = createHash('sha256').update(content).digest('hex');
const named = { upload: name, name: 'scan.nii' };
const good = { inputs: [named] };
const type = 'application/json';

const send = (server, body, headers = {}) =>
  request(server, target, { method: 'POST', headers: { 'Content-Type': type, ...headers }, body });

const deep = (depth) => `{"inputs": ${'['.repeat(depth)}${']'.repeat(depth)}}`;

/** Bodies that must be refused, by what they are. */
const refused = {
  nothing: '',
  'a list': [],
  null: null,
  'a text': '"inputs"',
  'half of an object': JSON.stringify(good).slice(0, -3),
  'something behind the object': `${JSON.stringify(good)}x`,
  'bytes that are no text': Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]),
  'no inputs': {},
  'inputs of null': { inputs: null },
  'inputs of a text': { inputs: name },
  'inputs of an object': { inputs: { length: 1, 0: named } },
  'inputs of nothing': { inputs: [] },
  'an empty group': { inputs: [[]] },
  'a group in a group': { inputs: [[[named]]] },
  'a file without an upload': { inputs: [{ name: 'scan.nii' }] },
  'a file without a name': { inputs: [{ upload: name }] },
  'a name that is a number': { inputs: [{ ...named, name: 7 }] },
  'an upload that is a path': { inputs: [{ ...named, upload: '../../jobs' }] },
  'an upload that is a number': { inputs: [{ ...named, upload: 7 }] },
  'an upload of too few digits': { inputs: [{ ...named, upload: name.slice(1) }] },
  'an upload that nobody sent': { inputs: [{ ...named, upload: '0'.repeat(64) }] },
  'inputs of a prototype': `{"__proto__": ${JSON.stringify(good)}}`,
  'options that are a list': { ...good, options: [] },
  'an option that does not exist': { ...good, options: { x: 1 } },
  'a device that does not exist': { ...good, gpu: [[99]] },
  'lists in lists, ten thousand deep': deep(10_000),
  'lists in lists, a million deep': deep(1_000_000),
  'a million files': { inputs: Array(30_000).fill(named) },
  'five megabytes': { ...good, tag: 'x'.repeat(5 * 2 ** 20) },
};

/** Checks an answer that is an error: it says in a sentence what was wrong. */
function checkRefusal(context, what, { status, text }) {
  const isRefusal = status >= 400 && (status < 500 || status === 507);
  context.check(isRefusal, `${what} was answered with ${status}: ${text.slice(0, 200)}`);
  if (isRefusal) context.check(/^\{"detail":"/.test(text), `${what} has no detail: ${text.slice(0, 200)}`);
}

async function malformed(context, server) {
  const before = (await listJobs(server)).length;
  for (const [what, given] of context.random.shuffle(Object.entries(refused))) {
    const body = typeof given === 'string' || Buffer.isBuffer(given) ? given : JSON.stringify(given);
    context.count('JSON submissions that must be refused');
    await context.attempt(`JSON with ${what}`, async () => {
      checkRefusal(context, `JSON with ${what}`, await send(server, body));
      await checkIsUp(context, server, server.pid, `JSON with ${what}`);
    });
  }
  const made = (await listJobs(server)).length - before;
  context.check(made === 0, `JSON submissions that must be refused made ${made} jobs`);
}

/** Random changes: whatever comes of them, no answer is a fault of the server. */
async function mutated(context, server) {
  const { random } = context;
  const whole = Buffer.from(JSON.stringify({ ...good, tag: 'a tag', options: {} }));
  for (let left = times(context.rounds, 500); left > 0; left -= 1) {
    const body = random.chance(0.7)
      ? mutateBytes(random, whole)
      : JSON.stringify({
          ...good,
          [random.pick(['tag', 'name', 'cpu', 'inputs'])]: random.pick(nastyValues),
        });
    context.count('JSON submissions changed at random');
    const answer = await send(server, body);
    if (answer.status === 200) await kill(server, JSON.parse(answer.text).job_id);
    else checkRefusal(context, `JSON of ${JSON.stringify(String(body).slice(0, 300))}`, answer);
  }
}

/** A submission that ends before its body does is none. */
async function cut(context, server) {
  const { random } = context;
  const body = JSON.stringify(good);
  const head = requestHead('POST', target, [`Content-Type: ${type}`, `Content-Length: ${body.length}`]);
  const whole = Buffer.concat([head, Buffer.from(body)]);
  const before = (await listJobs(server)).length;
  for (let left = times(context.rounds, 20); left > 0; left -= 1) {
    const connection = await Connection.open(server.url);
    await connection.write(whole.subarray(0, random.integer(1, whole.length - 1)));
    context.count('JSON submissions cut');
    connection[random.pick(['close', 'reset'])]();
  }
  await checkIsUp(context, server, server.pid, 'a JSON submission that was cut');
  const made = (await listJobs(server)).length - before;
  context.check(made === 0, `JSON submissions that were cut made ${made} jobs`);
}

/** The same submission twice at once is one job, which gets the content of the upload. */
async function right(context, server) {
  const key = { 'Idempotency-Key': context.random.word(20) };
  const answers = await Promise.all([1, 2].map(() => send(server, JSON.stringify(good), key)));
  context.count('JSON submissions that are right', answers.length);
  const ids = new Set(answers.map(({ text }) => JSON.parse(text).job_id));
  context.check(ids.size === 1, `One key made the jobs ${[...ids]}: ${answers.map(({ text }) => text)}`);
  const [id] = ids;
  const { status, error } = await ended(server, id);
  context.check(status === 'done', `A right JSON submission ended as ${status}: ${error}`);
  const result = await request(server, `/jobs/${id}/result`);
  const answer = String(unzip(result.bytes).get('answer'));
  context.check(answer === content, `A job of a JSON submission got '${answer}'`);
}

export async function run(context) {
  const server = await new Server(context, { flags: ['--cpu-slots', '1', '--grace', '600'] }).start();
  try {
    const { status, text } = await beginUpload(server, name, content.length, content);
    if (status !== 201) throw new Error(`An upload was answered with ${status}: ${text}`);
    await context.attempt('Malformed JSON', () => malformed(context, server));
    await context.attempt('JSON that is cut', () => cut(context, server));
    await context.attempt('JSON that is changed at random', () => mutated(context, server));
    await killAll(server);
    await context.attempt('JSON that is right', () => right(context, server));
    await checkDirectories(context, server);
    const fault = /^\S+ [A-Z]+ \S+ failed: .*$/m.exec(server.stderr)?.[0];
    context.check(fault === undefined, `The server reported a fault: ${fault}`);
  } finally {
    await server.close();
  }
}
