/**
 * A resident app for remote-app: it loads its model once, and then runs job after job.
 *
 * The server starts it as `node main.mjs resident APP`, and gives it the jobs. One job alone is
 * `node main.mjs infer APP --output DIR --inputs FILE...` (and more flags).
 */
import { cp, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { serve } from './resident.mjs';

/** YOUR MODEL IS LOADED HERE, once, onto the first GPU that CUDA_VISIBLE_DEVICES names, or the CPU if it is empty. */
async function load() {
  return 'the model';
}

/**
 * AND RUNS HERE: reads one case, one volume of each group of inputs, and writes its result to `target`. This one copies the
 * first volume, and prints a parameter. A volume is a file, or the directory of a DICOM series or of a Zarr store.
 */
async function predict(_model, volumes, target, flags) {
  console.log('threshold:', Number(setting(flags, 'threshold', '0.5')));
  await cp(volumes[0], target, { recursive: true });
}

/** What --set NAME=VALUE says. `parameters` of app.json says what it may be: all else is refused before the job. */
function setting(flags, name, byDefault) {
  const given = (flags.get('--set') ?? []).flat().findLast((each) => each.startsWith(`${name}=`));
  return given?.slice(name.length + 1) ?? byDefault;
}

/** Ends the job with a sentence for the person who sent it: what is wrong with the input, and what to do. */
async function refuse(sentence) {
  const place = process.env.REMOTE_APP_REFUSAL_FILE;
  if (place) await writeFile(place, sentence);
  console.error(sentence);
  process.exit(1);
}

/**
 * The values of each flag, a list each time that it was given: `--inputs A B --inputs C` becomes [[A, B], [C]]. A path is
 * absolute, so only a flag begins with a dash.
 */
function readFlags(words) {
  const flags = new Map();
  let values = [];
  for (const word of words) {
    if (!word.startsWith('-')) {
      values.push(word);
      continue;
    }
    values = [];
    flags.set(word, [...(flags.get(word) ?? []), values]);
  }
  return flags;
}

/** One job: the model is there already. */
async function run(model, [operation, , ...words]) {
  if (operation !== 'infer') await refuse(`This app has no operation '${operation}'`);
  const flags = readFlags(words);
  const [[output]] = flags.get('--output');
  const groups = flags.get('--inputs');
  const [first, ...more] = groups;
  if (more.some((group) => group.length !== first.length)) {
    await refuse('The groups of inputs have different numbers of volumes: give as many in each');
  }
  await mkdir(output, { recursive: true });
  for (const [index, volume] of first.entries()) {
    const name = path.basename(volume);
    console.log(`Case ${index + 1}/${first.length}: ${name}`);
    const volumes = groups.map((group) => group[index]);
    await predict(model, volumes, path.join(output, name), flags);
  }
}

await serve(load, run);
