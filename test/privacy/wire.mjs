import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { copyFile, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { refusals } from '../../dist/imaging/deidentify/refusals.js';
import { Cli } from '../support/cli.js';
import { konfaiServer } from '../support/konfai-server.js';
import { addressIn, hasEnded, serverEnvironment, serveWords } from '../support/serve.mjs';
import { until } from '../support/until.mjs';
import { newWord, plantUnits, wordsIn } from './plant.mjs';
import { filesIn, layersOf } from './unwrap.mjs';

/** Passes bytes on to a server, and keeps what clients write: a file for each connection. */
class WireRecorder {
  #server;
  #sockets = new Set();
  #files = [];
  #directory;
  #cutAfter = Number.POSITIVE_INFINITY;
  /** Connections that it has broken. */
  cuts = 0;

  static async before(target, directory) {
    const recorder = new WireRecorder();
    recorder.#directory = directory;
    recorder.#server = createServer((socket) => recorder.#pass(socket, Number(new URL(target).port)));
    await once(recorder.#server.listen(0, '127.0.0.1'), 'listening');
    recorder.url = `http://127.0.0.1:${recorder.#server.address().port}`;
    return recorder;
  }

  #pass(socket, port) {
    const file = path.join(this.#directory, `connection-${this.#files.length}`);
    const kept = createWriteStream(file);
    this.#files.push({ file, kept });
    const onward = connect(port, '127.0.0.1');
    const end = () => {
      socket.destroy();
      onward.destroy();
      kept.end();
    };
    for (const each of [socket, onward]) {
      this.#sockets.add(each);
      each.on('error', end).on('close', end);
    }
    let count = 0;
    socket.on('data', (chunk) => {
      kept.write(chunk);
      count += chunk.length;
      if (count < this.#cutAfter) return;
      this.#cutAfter = Number.POSITIVE_INFINITY;
      this.cuts += 1;
      end();
    });
    socket.pipe(onward).pipe(socket);
  }

  /** Breaks the next connection over which a client has written this many bytes. */
  cutAfter(bytes) {
    this.#cutAfter = bytes;
  }

  /** What clients have written so far, by connections, which are closed. */
  async take() {
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
    const files = this.#files.splice(0);
    await Promise.all(files.map(({ kept }) => finished(kept.end())));
    return Promise.all(files.map(({ file }) => readFile(file)));
  }

  async stop() {
    await this.take();
    this.#server.close();
  }
}

const bin = fileURLToPath(new URL('../../bin/run.js', import.meta.url));
/** Real files that have to be sent. */
const fewestFiles = 60;

/** The flags that allow what a person may allow. */
const allowAll = Object.entries(refusals).flatMap(([kind, { isAllowable }]) =>
  isAllowable ? ['--allow-identifying', kind] : [],
);

/**
 * Divides units into those that the command takes, those that it takes with `allowAll`, which are moved apart, and those that it
 * refuses, which are removed. Counts by reason what it refuses at first.
 */
async function sendable(units, cli, apart) {
  const kept = [];
  const allowed = [];
  const refused = {};
  for (const unit of units) {
    const args = ['infer', unit.path, '--deidentify', '--dry-run', '--json'];
    const { code, stdout } = await cli.run(args);
    if (code === 0) {
      kept.push(unit);
      continue;
    }
    const { refusal, message } = JSON.parse(stdout).error;
    const reason = refusal ?? /cannot be de-identified: (.*?)\. /.exec(message)?.[1] ?? 'not recognised';
    refused[reason] = (refused[reason] ?? 0) + 1;
    if ((await cli.run([...args, ...allowAll])).code === 0) {
      const target = path.join(apart, path.basename(unit.path));
      await rename(unit.path, target);
      allowed.push({ ...unit, path: target, files: [target] });
    } else await rm(unit.path, { recursive: true });
  }
  return { kept, allowed, refused };
}

/** A server of an app that takes anything. */
async function startServer(workshop) {
  const app = path.join(await workshop.directory('apps'), 'tissue');
  await mkdir(app);
  const group = { display_name: 'Scan', volume_type: 'FILE', required: true, default: null };
  const description = {
    ...{ display_name: 'Tissue', description: 'Takes anything', short_description: 'Takes anything' },
    ...{ tta: 0, mc_dropout: 0, command: ['node', 'main.mjs'] },
    inputs: { Volume_0: group, Volume_1: { ...group, required: false } },
  };
  await writeFile(path.join(app, 'app.json'), JSON.stringify(description));
  await writeFile(path.join(app, 'main.mjs'), "console.log('case-0001 is done');\n");
  const home = await workshop.directory('home');
  const words = serveWords({ dataDirectory: path.join(home, 'data'), apps: [app] });
  const child = workshop.start(process.execPath, [bin, ...words], { env: serverEnvironment({ home }) });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (printed += chunk));
  return until('the server listens', () => {
    if (hasEnded(child)) throw new Error(`The server did not start: ${printed}`);
    return addressIn(printed);
  });
}

/** What a command wrote to its connections: how many files and bytes, and which words. */
function judged(connections) {
  const found = new Map();
  const files = [...filesIn(connections)];
  const bytes = connections.reduce((sum, { length }) => sum + length, 0);
  let layers = 0;
  for (const layer of layersOf(connections)) {
    layers += 1;
    for (const word of wordsIn(layer)) found.set(word, layer);
  }
  return { files, bytes, unpacked: layers - connections.length - files.length, found };
}

const around = (layer, word) => {
  const text = layer.toString('latin1').toUpperCase();
  const at = Math.max(text.indexOf(word), text.indexOf([...word].join('\0')));
  return text.slice(Math.max(0, at - 60), at + 30).replaceAll(/[^\x20-\x7e]/g, '.');
};

/** Real files are sent in all ways, and no word of them may be on the wire. */
export async function judgeWire(workshop, { ask, check }) {
  const cli = await Cli.create();
  workshop.keep({ stop: () => cli.remove() });
  const root = path.join(cli.directory, newWord());
  await mkdir(root);
  const planted = await plantUnits(root, ask, workshop);
  const apart = path.join(cli.directory, newWord());
  await mkdir(apart);
  const { kept, allowed, refused } = await sendable(planted, cli, apart);
  const real = kept.filter(({ source }) => source !== null).flatMap(({ files }) => files);
  const reasons = Object.entries(refused).map(([reason, count]) => `${count} ${reason}`);
  check(
    'files for the wire',
    real.length < fewestFiles ? [`of ${fewestFiles} that there have to be`] : [],
    `${real.length} real ones, with a word in every text; refused: ${reasons.join(', ')}, of which ${allowed.length} can be allowed`,
  );

  const wordsOf = (units) => [...new Set(units.flatMap(({ inside, names }) => [...inside, ...names]))];
  const everyWord = new Set([...wordsOf(planted), path.basename(root), path.basename(apart)]);
  // A server has what was sent to it before, so each way gets a new one.
  const newServer = () => startServer(workshop);
  const expected = (units) => units.reduce((sum, { files }) => sum + files.length, 0);

  /**
   * What commands write to their connections with a server.
   * @param expect what is wrong with it
   */
  async function way(target, units, commands, { cutAfter, expect = () => [] } = {}) {
    const recorder = workshop.keep(await WireRecorder.before(target, await workshop.directory('wire')));
    if (cutAfter) recorder.cutAfter(cutAfter);
    const wrong = [];
    const outputs = [];
    for (const command of commands) {
      const args = typeof command === 'function' ? command(outputs) : command;
      const env = { REMOTE_APP_SERVER: recorder.url };
      const { code, stdout, stderr } = await cli.runProcess(args, env);
      outputs.push(stdout);
      if (code !== 0) wrong.push(`${args.join(' ')}: ${code} ${stderr.slice(0, 600)}`);
    }
    const sent = judged(await recorder.take());
    const words = wordsOf(units);
    for (const word of sent.found.keys()) if (!everyWord.has(word)) sent.found.delete(word);
    const hits = words.filter((word) => sent.found.has(word));
    const whole = sent.files.filter(({ isWhole }) => isWhole);
    wrong.push(...expect({ ...sent, whole, cuts: recorder.cuts }));
    const figures =
      `${whole.length} files, ${words.length} words, ${sent.bytes} bytes sent, ${sent.unpacked} times unpacked; ` +
      `${hits.length} words found`;
    return { wrong, figures, found: sent.found };
  }

  const sourceOf = (word) =>
    planted.find(({ inside, names }) => inside.includes(word) || names.includes(word))?.source ?? 'a name';

  // Some arrive twice where the first request is broken off.
  const hasAll = (count, wanted, isCut) => (isCut ? count >= wanted : count === wanted);

  /** The same, of which no word may be found, and as many files as there are have to arrive. */
  async function silent(name, target, units, commands, options = {}) {
    const wanted = expected(units) * (options.times ?? 1);
    const expect = ({ files, whole, found, cuts }) => [
      ...[...found].map(([word, layer]) => `${word} of ${sourceOf(word)}: ${around(layer, word)}`),
      ...(hasAll(whole.length, wanted, options.cutAfter)
        ? []
        : [`${whole.length} files arrived of ${wanted}`]),
      ...whole
        .filter((each) => !/^case-\d{4}/.test(each.name))
        .map((each) => `a file is called ${each.name}`),
      ...(options.cutAfter && (cuts !== 1 || files.every(({ isWhole }) => isWhole))
        ? ['no file was broken off']
        : []),
    ];
    const { wrong, figures } = await way(target, units, commands, { ...options, expect });
    check(`on the wire, ${name}`, wrong, figures);
  }

  const app = ['-a', 'tissue'];
  const control = await way(await newServer(), kept, [
    ['infer', root, '--yes', ...app, '--no-deidentify', '--detach'],
  ]);
  const missed = kept.flatMap(({ source, inside, names }) =>
    [...inside, ...names]
      .filter((word) => !control.found.has(word))
      .map((word) => `${word} of ${source} is not found`),
  );
  check('on the wire as they are', [...control.wrong, ...missed], control.figures);

  const full = ['--yes', '--deidentify', ...app];
  await silent('in one job', await newServer(), kept, [['infer', root, ...full, '-o', 'One']]);
  await silent('with --each', await newServer(), kept, [['infer', '--each', root, ...full, '-o', 'Each']]);
  await silent(
    'over a connection that breaks',
    await newServer(),
    kept,
    [['infer', root, ...full, '--detach']],
    { cutAfter: 3 << 20 },
  );
  await silent(
    'again with retry',
    await newServer(),
    kept,
    [['infer', root, ...full, '--detach'], ([id]) => ['retry', id.trim(), '--detach']],
    { times: 2 },
  );

  await silent('of kinds that were allowed', await newServer(), allowed, [
    ['infer', apart, ...full, ...allowAll, '--detach'],
  ]);

  // Two groups: files of the same names in two directories, and a file each.
  const [volumes, images] = [/\.nii(\.gz)?$/, /\.dcm$/].map((ending) =>
    kept.filter(({ files, path: at }) => files.length === 1 && ending.test(at)),
  );
  const half = Math.floor(volumes.length / 2);
  const directories = [path.join(root, newWord()), path.join(root, newWord())];
  for (const each of directories) {
    everyWord.add(path.basename(each));
    await mkdir(each);
  }
  for (let at = 0; at < half; at += 1) {
    const stem = newWord();
    everyWord.add(stem);
    for (const [side, directory] of directories.entries()) {
      const { path: from } = volumes[at + side * half];
      await copyFile(from, path.join(directory, `${stem}.nii${from.endsWith('z') ? '.gz' : ''}`));
    }
  }
  const sides = (paths) => ['infer', ...paths.flatMap((each) => ['-i', each]), ...full, '--detach'];
  await silent(
    'with two groups',
    await newServer(),
    [...volumes.slice(0, 2 * half), ...images.slice(0, 2)],
    [sides(directories), sides(images.slice(0, 2).map(({ path: at }) => at))],
  );
  for (const each of directories) await rm(each, { recursive: true });

  const konfai = await konfaiServer();
  workshop.keep({ stop: () => konfai[Symbol.asyncDispose]() });
  await silent("to KonfAI's server", konfai.url, kept, [['infer', root, ...full, '--detach']]);
}
