import { cp, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { ResidentWorker } from '../support/resident-worker.mjs';
import { runProgram } from './clients.mjs';
import { programOf } from './environment.mjs';
import { operations, refused } from './operations.mjs';
import { contentsOf, differencesOf, flipByte } from './results.mjs';
import { environment } from './servers.mjs';

const worker = fileURLToPath(new URL('../../engines/konfai_worker.py', import.meta.url));

/** How often each operation runs in the loaded engine. */
const rounds = 2;

/** The arguments of an operation, as a server gives them to the engine. */
const wordsOf = ([verb, ...rest], app, output) => [verb, app, ...rest, '--cpu', '1', '--output', output];

/** A job of the engine that is started for it: as `runWarm`. */
async function runCold({ workshop, root, app }, words) {
  const output = path.join(await workshop.directory('cold'), 'Output');
  const startedAt = performance.now();
  const engine = [programOf('konfai-apps'), ...wordsOf(words, app, output)];
  const { code, printed } = await runProgram(workshop, engine, root, { TMPDIR: workshop.root });
  return { output, code, printed, seconds: (performance.now() - startedAt) / 1000 };
}

/** The same job in the engine that is loaded. The paths of `words` are relative to the job's directory. */
async function runWarm({ workshop, root, app }, engine, words) {
  const output = path.join(await workshop.directory('warm'), 'Output');
  const startedAt = performance.now();
  const { answer, log } = await engine.run(wordsOf(words, app, output), {
    directory: root,
    environment: { TMPDIR: workshop.root },
  });
  return { output, code: answer.exit_code, printed: log, seconds: (performance.now() - startedAt) / 1000 };
}

const tail = (printed) => printed.trim().split('\n').slice(-6).join('\n    ');

/** Runs an operation in both ways and compares what it writes, file by file. @returns the faults, and how long each took */
async function compare(place, engine, { theirs: words, writes }) {
  const { workshop } = place;
  const cold = await runCold(place, words);
  if (cold.code !== 0)
    return { faults: [`cold: ended with ${cold.code}:\n    ${tail(cold.printed)}`], seconds: [] };
  const expected = await contentsOf(workshop, cold.output);
  const faults = [];
  const seconds = [cold.seconds];
  for (let round = 1; round <= rounds; round += 1) {
    const warm = await runWarm(place, engine, words);
    seconds.push(warm.seconds);
    if (warm.code !== 0) {
      faults.push(`warm, round ${round}: ended with ${warm.code}:\n    ${tail(warm.printed)}`);
      continue;
    }
    if (place.flip && round === rounds) {
      const name = [...expected.keys()].find((each) => writes.test(each));
      await flipByte(path.join(warm.output, name));
    }
    const different = differencesOf(expected, await contentsOf(workshop, warm.output));
    faults.push(...different.map((each) => `warm, round ${round}: ${each}`));
  }
  return { faults, seconds };
}

/** A refusal ends with the same code, and with the same sentence. */
async function compareRefusal(place, engine) {
  const cold = await runCold(place, refused.theirs);
  const warm = await runWarm(place, engine, refused.theirs);
  const faults = [];
  if (warm.code !== cold.code || cold.code === 0)
    faults.push(`ended with ${warm.code}, cold with ${cold.code}`);
  if (!refused.sentence.test(warm.printed)) faults.push(`does not say why:\n    ${tail(warm.printed)}`);
  return { faults, seconds: [cold.seconds, warm.seconds] };
}

/**
 * Another app, whose module has the name of the first one's, between two runs of the first: each runs its own code. It runs
 * out of memory where `--set gain=75` asks for it.
 */
async function compareTwins(place, engine) {
  const twin = path.join(await place.workshop.directory('twin'), 'Contrast');
  await cp(place.app, twin, { recursive: true });
  const module = path.join(twin, 'Contrast.py');
  const code = await readFile(module, 'utf8');
  const other = `if self.gain == 75:\n            raise torch.OutOfMemoryError("no memory")\n        return voxels * 3`;
  await writeFile(module, code.replace('return voxels * self.gain', other));
  const infer = operations[0];
  const [one, two, three] = [
    await compare(place, engine, infer),
    await compare({ ...place, app: twin, flip: false }, engine, infer),
    await compare(place, engine, infer),
  ];
  const full = await runWarm({ ...place, app: twin }, engine, [...infer.theirs, '--set', 'gain=75']);
  const faults = [one, two, three].flatMap((each) => each.faults);
  if (full.code !== 75) faults.push(`out of memory: ended with ${full.code}:\n    ${tail(full.printed)}`);
  return { faults, seconds: [...one.seconds, ...two.seconds, ...three.seconds] };
}

/**
 * Runs every operation in an engine that is started for it, and in one that is loaded once for all of them.
 * @param isChosen says of a name whether to run it
 * @returns the faults, a sentence each
 */
export async function warmFaults(place, isChosen, say) {
  const cases = [
    ...operations.map((each) => [each.name, (engine) => compare(place, engine, each)]),
    [refused.name, (engine) => compareRefusal(place, engine)],
    ['two apps of one module', (engine) => compareTwins(place, engine)],
  ].filter(([name]) => isChosen({ name: `warm ${name}` }));
  if (cases.length === 0) return [];
  const command = [programOf('python'), worker, 'resident', '--cpu', '1'];
  const engine = new ResidentWorker(command, { ...environment, HOME: place.workshop.root });
  const all = [];
  try {
    await engine.answer();
    for (const [name, check] of cases) {
      const { faults, seconds } = await check(engine);
      const took = seconds.map((each) => each.toFixed(1)).join(', ');
      say(`warm ${name}: ${faults.length === 0 ? 'ok' : 'FAILED'} (cold, then warm: ${took} s)`);
      all.push(...faults.map((fault) => `warm ${name}, ${fault}`));
    }
  } finally {
    await engine.close();
  }
  return all;
}
