/**
 * `npm run test:privacy`: files of pydicom and pydicom-data are de-identified, as they are and with a word in every text of
 * theirs, and judged by others: no word may be left, pydicom has to read the same pixels, `dciodvfy` may find no new error, and
 * `dcmftest` has to accept them, and dicom-anonymizer and deid may find nothing more to remove than what the table of attributes
 * gives a reason for. dcm2niix has to make the same of mosaics and of diffusion of three vendors. Then real files of all formats with such words are sent, and none of them may be on the wire
 * (`wire.mjs`); `-- --only wire` does this alone. Prints a line for each check; exit code 0 says that all hold. Without Python it says `skipped:`
 * and why, and ends with 0; without the programs of Debian's dicom3tools and dcmtk, only their checks are left out.
 */
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { attributes } from '@remote-app/volumes/attributes';
import { deidentifyDicom } from '../../dist/imaging/deidentify/dicom.js';
import { CannotDeidentify, refusals } from '../../dist/imaging/deidentify/refusals.js';
import { Pseudonyms } from '../../dist/imaging/deidentify/uids.js';
import { PythonEnvironment } from '../../tools/python-environment.mjs';
import { judgedByPython } from '../support/judged-by-python.mjs';
import { judgeWire } from './wire.mjs';

const factsFile = new URL('../imaging/deidentify/basic-profile.txt', import.meta.url);

/** How the table has an attribute: the first of its parts that has it, where times and uptake are kept. */
const rowOf = (tag) =>
  [attributes.emission, attributes.timed, attributes.image].map((rows) => rows.get(tag)).find(Boolean);

/** Why another tool may find an attribute in what leaves; null where it may not. */
function reasonFor(tag, profile) {
  const row = rowOf(tag);
  if (!row) return null;
  if (['uid', 'well-known', 'pseudonym', 'fallback'].includes(row.treatment)) return 'written anew';
  if (row.option !== null) return row.option;
  return profile.has(tag) ? null : 'not in the Basic Profile';
}

/** Asks other tools what they would still remove or replace in de-identified files: only what the table has a reason for. */
async function judgeWithOthers(directory, outputs, { ask, check }) {
  const list = path.join(directory, 'outputs.json');
  await writeFile(list, JSON.stringify(outputs));
  const profile = new Set((await readFile(factsFile, 'utf8')).match(/^[0-9a-f]{8}(?= )/gm));
  for (const [tool, found] of Object.entries(await ask('others', list))) {
    const byReason = new Map();
    for (const tag of Object.keys(found).sort()) {
      const reason = reasonFor(tag, profile);
      byReason.set(reason, [...(byReason.get(reason) ?? []), tag]);
    }
    const nameOf = (tag) => `${rowOf(tag)?.name.split(' ')[0] ?? tag} ${found[tag].length}`;
    const wrong = (byReason.get(null) ?? []).map((tag) => `${nameOf(tag)} times, as in ${found[tag][0]}`);
    const told = [...byReason].map(
      ([reason, tags]) => `${reason ?? 'no reason'}: ${tags.map(nameOf).join(', ')}`,
    );
    check(`what ${tool} would still remove`, wrong, `in ${outputs.length} files; ${told.join('; ')}`);
  }
}

const isWireAlone = process.argv.slice(2).join(' ') === '--only wire';
const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const say = (text) => process.stderr.write(`${text}\n`);
const execute = promisify(execFile);

/** Kept between runs. */
const environment = new PythonEnvironment(here('../../.cache/privacy'), {
  requirements: here('requirements.txt'),
  probe: 'pydicom',
  variable: 'REMOTE_APP_PRIVACY_VENV',
  what: 'pydicom and its files, nibabel, and other tools for de-identification',
  size: 'about 300 MB',
});

const neededAttributes = [...attributes.emission.values()]
  .filter(({ isNeeded, treatment, vrs }) => isNeeded || (treatment === 'time' && !vrs.includes('DA')))
  .map(({ tag }) => tag);

const ask = async (...words) => {
  const { stdout } = await execute(environment.programOf('python'), [here('judge.py'), ...words], {
    maxBuffer: 1 << 28,
    env: { ...process.env, NEEDED_ATTRIBUTES: neededAttributes.join(' ') },
  });
  return JSON.parse(stdout);
};

let faults = 0;
function check(name, wrong, figures) {
  if (wrong.length > 0) faults += 1;
  console.log(`${wrong.length === 0 ? 'ok    ' : 'FAILED'}  ${name}: ${figures}`);
  for (const each of wrong) console.log(`        ${each}`);
}

const pseudonyms = new Pseudonyms(Buffer.alloc(32, 7));
const everything = new Set(Object.keys(refusals));

/** The bytes that leave of a file; the name of its refusal where none do. */
async function leaving(file, allowed) {
  try {
    const { pieces, size } = await deidentifyDicom(file, path.basename(file), { pseudonyms, allowed });
    const whole = await readFile(file);
    const bytes = Buffer.concat(
      pieces.map((piece) => (piece instanceof Uint8Array ? piece : whole.subarray(piece.start, piece.end))),
    );
    if (bytes.length !== size)
      throw new Error(`${file}: ${size} bytes were announced, and ${bytes.length} came`);
    return { bytes };
  } catch (error) {
    if (!(error instanceof CannotDeidentify)) throw error;
    return { refusal: error.refusal };
  }
}

/** What a program says of a file; null where it is not installed. */
async function words(program, file) {
  try {
    const { stdout, stderr } = await execute(program, [file], { maxBuffer: 1 << 26 });
    return stdout + stderr;
  } catch (error) {
    if (error.code === 'ENOENT') return null;
    return `${error.stdout ?? ''}${error.stderr ?? ''}` || error.message;
  }
}

/** Errors that dciodvfy finds, without the values and the numbers of items in them. */
const errorsIn = (text) =>
  new Set(
    text
      .split('\n')
      .filter((line) => line.startsWith('Error'))
      .map((line) => line.replaceAll(/\[\d+\]|(?:[Vv]alue[^=]*=|is) *<[^>]*>| <[^>]*>$/g, '').trim()),
  );

const counted = (names) =>
  [...new Set(names)].map((name) => `${names.filter((each) => each === name).length} ${name}`).join(', ');

async function judge(workshop) {
  const directory = await workshop.directory('planted');
  const rows = await ask('plant', directory);

  const usual = [];
  const pairs = [];
  for (const [index, { file }] of rows.entries()) {
    const { refusal } = await leaving(file, new Set());
    usual.push(refusal ?? 'sent');
    const { bytes } = await leaving(file, everything);
    if (!bytes) continue;
    const target = path.join(directory, `${index}-out.dcm`);
    await writeFile(target, bytes);
    pairs.push([file, target]);
  }
  check('files', [], `${rows.length}, of which ${counted(usual)}; ${pairs.length} with everything allowed`);

  const found = [];
  let copies = 0;
  for (const { file, planted } of rows)
    for (const { file: copy, words: canaries } of planted) {
      const { bytes } = await leaving(copy, everything);
      if (!bytes) continue;
      copies += 1;
      const text = bytes.toString('latin1').toUpperCase();
      for (const word of canaries)
        if (text.includes(word))
          found.push(`${file}, copy ${copy}: ${text.slice(text.indexOf(word) - 40).slice(0, 60)}`);
    }
  check('words that left', found, `${found.length} in ${copies} files with a word in every text`);

  const list = path.join(directory, 'pairs.json');
  await writeFile(list, JSON.stringify(pairs));
  const differences = await ask('judge', list);
  const wrong = differences.flatMap((each, index) => (each ? [`${pairs[index][0]}: ${each}`] : []));
  check('pixels and places', wrong, `${pairs.length - wrong.length} of ${pairs.length} files have the same`);

  if ((await words('dciodvfy', pairs[0][0])) === null) {
    say('skipped: dciodvfy, of dicom3tools, is not installed');
  } else {
    const added = [];
    let judged = 0;
    for (const [before, after] of pairs) {
      const told = await words('dciodvfy', before);
      // Deflated files, for example.
      if (told.includes('Dicom dataset read failed')) continue;
      judged += 1;
      const [old, now] = [told, await words('dciodvfy', after)].map(errorsIn);
      for (const error of now) if (!old.has(error)) added.push(`${before}: ${error}`);
    }
    check('dciodvfy', added, `${added.length} new errors in ${judged} files`);
  }
  if ((await words('dcmftest', pairs[0][1])) === null) {
    say('skipped: dcmftest, of dcmtk, is not installed');
  } else {
    const refused = [];
    for (const [, after] of pairs) if (!/^yes:/m.test(await words('dcmftest', after))) refused.push(after);
    check('dcmftest', refused, `accepts ${pairs.length - refused.length} of ${pairs.length} files`);
  }
  await judgeWithOthers(
    directory,
    pairs.map(([, after]) => after),
    { ask, check },
  );
}

/** What dcm2niix makes of mosaics and of diffusion, whose slices and weights are in private attributes, before and after. */
async function judgeConverted(workshop) {
  const given = await workshop.directory('private');
  const left = await workshop.directory('private-left');
  const judge = (...words) =>
    execute(environment.programOf('python'), [here('judge_private.py'), ...words], { maxBuffer: 1 << 26 });
  await judge('make', given);
  for (const name of await readdir(given, { recursive: true })) {
    if (!name.endsWith('.dcm')) continue;
    const { bytes, refusal } = await leaving(path.join(given, name), new Set());
    if (!bytes) throw new Error(`${name} was refused: ${refusal}`);
    await mkdir(path.dirname(path.join(left, name)), { recursive: true });
    await writeFile(path.join(left, name), bytes);
  }
  const { stdout } = await judge('compare', given, left, environment.programOf('dcm2niix'));
  const rows = JSON.parse(stdout);
  const wrong = rows.flatMap(({ name, differences }) => differences.map((each) => `${name}: ${each}`));
  check('dcm2niix', wrong, rows.map(({ name, figures }) => `${name} ${figures}`).join('; '));
}

await judgedByPython(environment, 'privacy', say, async (workshop) => {
  if (!isWireAlone) await judge(workshop);
  if (!isWireAlone) await judgeConverted(workshop);
  await judgeWire(workshop, { ask, check });
  return faults;
});
