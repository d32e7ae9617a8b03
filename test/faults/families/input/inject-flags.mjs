import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { carriesFiles } from '../../../../dist/contract/fields.js';
import { operations } from '../../../../dist/contract/operations.js';
import { file, formOf } from '../../../support/form.mjs';
import { list } from '../../../support/list.mjs';
import { zipOf } from '../../../support/zip.mjs';
import { ended, kill, request, steps, submit } from '../../support/api.mjs';
import { nastyValues } from './nasty.mjs';

/** The app's command line as docs/reference.md describes it, read word by word: a word that is left over came from a value. */
const integer = /^\d+$/;
const number = /^\d+(\.\d+)?(e[+-]?\d+)?$/;
const relative = /^(?![-/\\])(?!.*\.\.)/;
const absolute = /^\//;
const setting = /^(?!-)\s*[^=\s][^=]*=/;

/** Flag -> what its words look like, how many there may be, and how often it may come. */
const knownFlags = {
  '--tta': [integer, 1, 1],
  '--mc': [integer, 1, 1],
  '--ensemble': [integer, 1, 1],
  '--ensemble_models': [relative, 99, 1],
  '--models': [relative, 99, 1],
  '--prediction_file': [relative, 1, 1],
  '--evaluation_file': [relative, 1, 1],
  '--uncertainty_file': [relative, 1, 1],
  '--config': [relative, 1, 1],
  '--epochs': [integer, 1, 1],
  '--it_validation': [integer, 1, 1],
  '--lr': [number, 1, 1],
  '--patch_size': [integer, 99, 1],
  '--batch_size': [integer, 1, 1],
  '--set': [setting, 1, 99],
  '--output': [absolute, 1, 1],
  '--gpu': [integer, 99, 1],
  '--cpu': [integer, 1, 1],
  '--inputs': [absolute, 99, 99],
  '--gt': [absolute, 99, 99],
  '--mask': [absolute, 99, 99],
  '--dataset': [absolute, 1, 1],
  '-uncertainty': [/(?!)/, 0, 1],
  '--quiet': [/(?!)/, 0, 1],
};

const verbs = {
  infer: 'infer',
  evaluate: 'eval',
  uncertainty: 'uncertainty',
  pipeline: 'pipeline',
  fine_tune: 'fine-tune',
};

/** What is wrong with a command line, in words; null for a correct one. */
function commandFault(operation, command) {
  const [verb, app, ...words] = command.slice(2);
  if (verb !== verbs[operation] || !absolute.test(app ?? '')) return `it begins with ${verb} ${app}`;
  if (operation === 'fine_tune' && !/^[^-/\\][^/\\]*$/.test(words.shift() ?? '-'))
    return 'its name could be a flag';
  const seen = new Map();
  while (words.length > 0) {
    const flag = words.shift();
    const known = Object.hasOwn(knownFlags, flag) ? knownFlags[flag] : null;
    if (known === null) return `'${flag}' is no flag and no value of one`;
    const [pattern, most, often] = known;
    seen.set(flag, (seen.get(flag) ?? 0) + 1);
    if (seen.get(flag) > often) return `${flag} comes ${seen.get(flag)} times`;
    let values = 0;
    while (
      words.length > 0 &&
      values < most &&
      pattern.test(words[0]) &&
      !Object.hasOwn(knownFlags, words[0])
    ) {
      words.shift();
      values += 1;
    }
    if (values === 0 && most > 0) return `${flag} has no value, but '${words[0]}'`;
  }
  return null;
}

const inputs = file('scan.nii');
const fileOf = ({ name, kind }) =>
  kind === 'archive' ? file('data.zip', zipOf({ a: 'x' })) : file(`${name}.nii`);

/** The required fields of each operation's form, its text fields, and whether it may have settings. */
const forms = Object.entries(operations).map(([operation, { fields }]) => ({
  operation,
  least: Object.fromEntries(
    fields.filter(({ required }) => required).map((field) => [field.name, fileOf(field)]),
  ),
  texts: fields.filter((field) => !field.option && !carriesFiles(field)).map(({ name }) => name),
  settings: fields.filter(({ option, kind }) => option && kind === 'overrides').map(({ name }) => name),
}));
const flags = list`--output --inputs --set -uncertainty -- -x -1 --output=/tmp \u2010x constructor __proto__`;
const worst = [
  ...flags,
  ...flags.map((each) => `a,${each}`),
  ' --set',
  '\n--set',
  'a\n--set',
  'a\0--set',
  'a --set b',
];

/** Every field of every operation with every value that could be a flag. */
function* cases(random, others) {
  for (const { operation, least, texts, settings } of forms) {
    for (const name of texts) {
      for (const value of [...worst, ...random.shuffle(nastyValues).slice(0, others)]) {
        yield { operation, what: `${name}=${JSON.stringify(value)}`, form: { ...least, [name]: value } };
      }
    }
    for (const name of settings) {
      for (const value of [...flags, 'a=--set', ' -x=1', '--set=1', 'a= --output /tmp']) {
        yield {
          operation,
          what: `${name}=[${JSON.stringify(value)}]`,
          form: { ...least, options: JSON.stringify({ [name]: [value] }) },
        };
      }
    }
  }
  for (const name of ['--output', '-x', '--inputs /etc/passwd', '-uncertainty']) {
    yield { operation: 'infer', what: `a file named ${name}`, form: { inputs: file(name) } };
    const dataset = file('data.zip', zipOf({ [name]: 'x' }));
    yield { operation: 'fine_tune', what: `a data set of ${name}`, form: { dataset } };
  }
}

/** The command line in `run.json`, as soon as it exists. */
async function commandOf(server, id) {
  await ended(server, id);
  const file = path.join(server.jobDirectory(id), 'run.json');
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).command : null;
}

/**
 * No value of any field reaches the app's command line as a flag. All are offered; of those that are accepted,
 * chance chooses some to be run, and their command lines are read word by word.
 */
export async function injectFlags(context, server) {
  const { random, rounds } = context;
  const gate = path.join(context.scratch, 'never');
  const blocker = await submit(server, 'witness', 'infer', { inputs, options: steps({ gate }) });
  const accepted = new Map();
  for (const { operation, what, form } of cases(random, rounds)) {
    const answer = await request(server, `/apps/witness/${operation}`, {
      method: 'POST',
      body: formOf(form),
    });
    context.count('values offered to the command line');
    const { status, text } = answer;
    context.check(
      [200, 400, 413, 422, 503].includes(status),
      `${operation} with ${what} was answered with ${status}: ${text}`,
    );
    if (status !== 200) continue;
    await kill(server, JSON.parse(text).job_id);
    accepted.set(`${operation} with ${what}`, { operation, form });
  }
  await kill(server, blocker);
  // The values of the list are run before the random ones.
  const odd = [...accepted].filter(([what]) => /--|-x|constructor|__proto__/.test(what));
  const others = random.shuffle([...accepted].filter((each) => !odd.includes(each)));
  for (const [what, { operation, form }] of [...random.shuffle(odd), ...others].slice(0, 6 * rounds)) {
    const id = await submit(server, 'witness', operation, form);
    const command = await commandOf(server, id);
    context.count('  accepted, and its command line read');
    if (command === null) continue;
    const fault = commandFault(operation, command);
    context.check(
      fault === null,
      `${operation} with ${what} became ${JSON.stringify(command.slice(2))}: ${fault}`,
    );
  }
}
