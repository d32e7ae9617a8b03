/** Apps with hostile or damaged files. Each request about one is answered in time, and other apps are not affected. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { file } from '../../support/form.mjs';
import { times } from '../context.mjs';
import { ended, json, request, trySubmit } from '../support/api.mjs';
import { apps, Server } from '../support/server.mjs';

/** Maximum milliseconds for an answer. The machine may be busy. */
const bound = 3000;

const good = { display_name: 'A', description: 'd', short_description: 's', tta: 0, mc_dropout: 0 };
const secret = 'root:x:';

const nested = (open, close, depth) => open.repeat(depth) + 1 + close.repeat(depth);

/** What may be there instead of a file. Each function gets the path, which is free, and the random source. */
const places = {
  'a FIFO': (at) => execFileSync('mkfifo', [at]),
  'a directory': (at) => mkdirSync(at),
  'a link to itself': (at) => symlinkSync(path.basename(at), at),
  'a link to a device without end': (at) => symlinkSync('/dev/zero', at),
  'a link to another file': (at) => symlinkSync('/etc/passwd', at),
  'random bytes': (at, random) => writeFileSync(at, random.bytes(random.integer(1, 3000))),
};

const manifests = {
  'that is deep': (random) => nested('[', ']', random.integer(1000, 200_000)),
  'with a deep key that is unknown': (random) =>
    `${JSON.stringify(good).slice(0, -1)},"more":${nested('{"a":', '}', random.integer(1000, 100_000))}}`,
  'that is long': (random) =>
    JSON.stringify({ ...good, description: 'x'.repeat(random.integer(2, 40) * 1e6) }),
  'with keys of every object': () =>
    `${JSON.stringify(good).slice(0, -1)},"__proto__":{"available":false},"constructor":1,"inputs":{"__proto__":1}}`,
  'with a value of another type': (random) =>
    JSON.stringify({
      ...good,
      [random.pick(Object.keys(good))]: random.pick([null, [], {}, 'x', -1, 1e308, true]),
    }),
};

const configurations = {
  'of brackets': (random) => random.pick(['[', '{', '- ', '? ', '{a: ']).repeat(random.integer(500, 60_000)),
  'of anchors': () =>
    `a0: &a0 [x]\n${Array.from({ length: 60 }, (_, at) => `a${at + 1}: &a${at + 1} [${`*a${at},`.repeat(9)}]`).join('\n')}`,
  'of keys': (random) =>
    Array.from({ length: random.integer(1000, 300_000) }, (_, at) => `k${at}: v`).join('\n'),
  'of tags': (random) => '!a '.repeat(random.integer(1000, 21_000)),
};

/** Every kind of strange app: a sentence, and what makes its files in its directory. */
function kinds(random) {
  const put = (name, text) => (directory) => writeFileSync(path.join(directory, name), text(random));
  const placed = (name) =>
    Object.entries(places).map(([what, place]) => [
      `${name} is ${what}`,
      (directory) => place(path.join(directory, name), random),
    ]);
  return [
    // With a link that leads to nothing as its app.json, a directory is not an app.
    ...placed('app.json').filter(([what]) => !what.endsWith('to itself')),
    ...Object.entries(manifests).map(([what, text]) => [`app.json ${what}`, put('app.json', text)]),
    ...[
      ...placed('Prediction.yml'),
      ...Object.entries(configurations).map(([what, text]) => [
        `Prediction.yml ${what}`,
        put('Prediction.yml', text),
      ]),
    ].map(([what, make]) => [
      what,
      (directory) => {
        writeFileSync(path.join(directory, 'app.json'), JSON.stringify(good));
        make(directory);
      },
    ]),
  ];
}

async function ask(context, server, name, what) {
  const began = performance.now();
  const { status, text } = await request(server, `/repo_apps/${name}`, { limit: 20_000 });
  const took = performance.now() - began;
  context.check(took < bound, `An app whose ${what} was described after ${took.toFixed(0)} ms`);
  context.check(status === 200, `An app whose ${what} answers ${status}: ${text.slice(0, 200)}`);
  context.check(!text.includes(secret), `An app whose ${what} shows another file`);
  const config = await request(server, `/repo_apps_config/${name}`, { limit: 20_000 });
  context.check(config.status === 200, `The files of an app whose ${what} answer ${config.status}`);
  const answer = await trySubmit(server, name, 'infer', { inputs: file('scan.nii', 'x'), cpu: '1' });
  // An app that cannot be described accepts no job.
  const { available } = JSON.parse(text);
  const expected = available === true ? 200 : 422;
  context.check(
    answer.status === expected,
    `An app whose ${what} answers a job with ${answer.status}: ${answer.text.slice(0, 200)}`,
  );
  context.check(!answer.text.includes(secret), `An app whose ${what} shows another file`);
  if (answer.status === 200) await ended(server, JSON.parse(answer.text).job_id, 20_000);
}

export async function run(context) {
  const chosen = context.random
    .shuffle(kinds(context.random))
    .slice(0, Math.max(6, times(context.rounds, 30)));
  const made = chosen.map(([what, make], at) => {
    const directory = path.join(context.scratch, `strange-${at}`);
    mkdirSync(directory);
    make(directory);
    context.count('strange apps');
    return { what, directory, name: path.basename(directory) };
  });
  const server = await new Server(context, {
    apps: [apps.witness, ...made.map(({ directory }) => directory)],
    flags: ['--engine', 'false'],
  }).start();
  try {
    const before = await json(server, '/repo_apps/witness');
    for (const { name, what } of made) {
      await context.attempt(`An app whose ${what}`, () => ask(context, server, name, what));
      if (server.hasEnded) return context.violation(`An app whose ${what} ended the server`);
    }
    const after = await json(server, '/repo_apps/witness');
    context.check(JSON.stringify(after) === JSON.stringify(before), 'A strange app changed another one');
  } finally {
    await server.close();
  }
}
