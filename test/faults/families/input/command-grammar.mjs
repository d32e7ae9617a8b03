/** The app's command line as docs/reference.md describes it, read word by word: a word that is left over came from a value. */
const integer = /^\d+$/;
const number = /^\d+(\.\d+)?(e[+-]?\d+)?$/;
const relative = /^(?![-/\\])(?!.*\.\.)/;
const absolute = /^\//;
const setting = /^(?!-)\s*[^=\s][^=]*=/;

/** Flag -> what its words look like, how many there may be, and how often it may come. */
const flags = {
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
export function commandFault(operation, command) {
  const [verb, app, ...words] = command.slice(2);
  if (verb !== verbs[operation] || !absolute.test(app ?? '')) return `it begins with ${verb} ${app}`;
  if (operation === 'fine_tune' && !/^[^-/\\][^/\\]*$/.test(words.shift() ?? '-'))
    return 'its name could be a flag';
  const seen = new Map();
  while (words.length > 0) {
    const flag = words.shift();
    const known = Object.hasOwn(flags, flag) ? flags[flag] : null;
    if (known === null) return `'${flag}' is no flag and no value of one`;
    const [pattern, most, often] = known;
    seen.set(flag, (seen.get(flag) ?? 0) + 1);
    if (seen.get(flag) > often) return `${flag} comes ${seen.get(flag)} times`;
    let values = 0;
    while (words.length > 0 && values < most && pattern.test(words[0]) && !Object.hasOwn(flags, words[0])) {
      words.shift();
      values += 1;
    }
    if (values === 0 && most > 0) return `${flag} has no value, but '${words[0]}'`;
  }
  return null;
}
