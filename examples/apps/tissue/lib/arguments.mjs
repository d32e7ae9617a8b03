import { UsageError } from './errors.mjs';

/**
 * Every flag of the command line, once. `values` is how many values follow: 0, 1 or 'many' (up to the next
 * flag); `repeat` collects one list per appearance. `-uncertainty` really has a single dash.
 */
const FLAGS = {
  '--tta': { name: 'tta', values: 1, type: 'count' },
  '--mc': { name: 'mc', values: 1, type: 'count' },
  '--ensemble': { name: 'ensemble', values: 1, type: 'count' },
  '--ensemble_models': { name: 'ensembleModels', values: 'many' },
  '-uncertainty': { name: 'uncertainty', values: 0 },
  '--prediction_file': { name: 'predictionFile', values: 1 },
  '--evaluation_file': { name: 'evaluationFile', values: 1 },
  '--uncertainty_file': { name: 'uncertaintyFile', values: 1 },
  '--config': { name: 'configFile', values: 1 },
  '--epochs': { name: 'epochs', values: 1, type: 'positive' },
  '--it_validation': { name: 'itValidation', values: 1, type: 'positive' },
  '--models': { name: 'models', values: 'many' },
  '--lr': { name: 'learningRate', values: 1, type: 'number' },
  '--dataset': { name: 'dataset', values: 1 },
  '--patch_size': { name: 'patchSize', values: 'many', type: 'count' },
  '--max_voxels': { name: 'maxVoxels', values: 1, type: 'positive' },
  '--batch_size': { name: 'batchSize', values: 1, type: 'count' },
  '--set': { name: 'overrides', values: 1, repeat: true },
  '--output': { name: 'output', values: 1 },
  '--gpu': { name: 'gpu', values: 'many', type: 'count' },
  '--cpu': { name: 'cpu', values: 1, type: 'positive' },
  '--inputs': { name: 'inputs', values: 'many', repeat: true },
  '--gt': { name: 'gt', values: 'many', repeat: true },
  '--mask': { name: 'mask', values: 'many', repeat: true },
  '--quiet': { name: 'quiet', values: 0 },
};

const COMMON = ['output', 'gpu', 'cpu', 'quiet'];
const TUNING = ['patchSize', 'maxVoxels', 'batchSize', 'overrides'];
const INFERENCE = ['tta', 'mc', 'ensemble', 'ensembleModels', 'uncertainty', 'predictionFile', ...TUNING];

/** Which flags an operation takes, and which it cannot do without. */
export const OPERATIONS = {
  infer: { flags: ['inputs', ...INFERENCE], required: ['inputs'] },
  eval: { flags: ['inputs', 'gt', 'mask', 'evaluationFile'], required: ['inputs', 'gt'] },
  uncertainty: { flags: ['inputs', 'uncertaintyFile'], required: ['inputs'] },
  pipeline: {
    flags: ['inputs', 'gt', 'mask', 'evaluationFile', 'uncertaintyFile', ...INFERENCE],
    required: ['inputs'],
  },
  'fine-tune': {
    flags: [
      'configFile',
      'epochs',
      'itValidation',
      'models',
      'learningRate',
      'dataset',
      'batchSize',
      'overrides',
    ],
    required: ['dataset'],
    named: true,
  },
};

const DEFAULTS = {
  tta: 0,
  mc: 0,
  ensemble: 0,
  uncertainty: false,
  predictionFile: 'Prediction.yml',
  evaluationFile: 'Evaluation.yml',
  uncertaintyFile: 'Uncertainty.yml',
  configFile: 'Config.yml',
  epochs: 10,
  itValidation: 1000,
  overrides: [],
  output: './Output/',
  quiet: false,
};

const TYPES = {
  count: { accepts: (value) => /^\d+$/.test(value), what: 'an integer of 0 or more' },
  positive: { accepts: (value) => /^[1-9]\d*$/.test(value), what: 'an integer of 1 or more' },
  number: {
    accepts: (value) => value.trim() !== '' && Number(value) > 0 && Number.isFinite(Number(value)),
    what: 'a number above 0',
  },
};

/** `OPERATION APP [NAME] FLAGS...` as `{ operation, app, name, options }`, or a UsageError. */
export function parseArguments(argv) {
  const [operation, app, ...rest] = argv;
  const spec = Object.hasOwn(OPERATIONS, operation ?? '') ? OPERATIONS[operation] : undefined;
  if (spec === undefined) {
    throw new UsageError(
      `Unknown operation '${operation ?? ''}': use one of ${Object.keys(OPERATIONS).join(', ')}.`,
    );
  }
  if (app === undefined || isFlag(app))
    throw new UsageError(`${operation} needs the app as its first argument.`);
  const name = spec.named ? rest.shift() : undefined;
  if (spec.named && !/^[\w.-]{1,100}$/.test(name ?? '-'))
    throw new UsageError(
      `${operation} needs a NAME made of letters, digits, '.', '_' and '-' after the app.`,
    );
  if (spec.named && isFlag(name))
    throw new UsageError(`${operation} needs a NAME after the app, before '${name}'.`);

  const options = { ...DEFAULTS, ...parseFlags(rest, operation, spec) };
  for (const key of spec.required) {
    if (options[key] === undefined) throw new UsageError(`${operation} needs ${flagOf(key)}.`);
  }
  return { operation, app, name, options };
}

function parseFlags(tokens, operation, spec) {
  const options = {};
  for (let at = 0; at < tokens.length; ) {
    const token = tokens[at];
    const flag = Object.hasOwn(FLAGS, token) ? FLAGS[token] : undefined;
    if (flag === undefined) throw new UsageError(`This app takes no ${token} for ${operation}.`);
    if (![...COMMON, ...spec.flags].includes(flag.name))
      throw new UsageError(`${operation} does not take ${token}.`);
    let end = at + 1;
    while (end < tokens.length && !isFlag(tokens[end])) end += 1;
    const values = tokens.slice(at + 1, end);
    at = end;
    const value = convert(token, flag, values);
    options[flag.name] = flag.repeat ? [...(options[flag.name] ?? []), value] : value;
  }
  return options;
}

function convert(token, flag, values) {
  if (flag.values === 0 && values.length > 0)
    throw new UsageError(`${token} takes no value, but '${values[0]}' follows it.`);
  if (flag.values === 1 && values.length !== 1)
    throw new UsageError(`${token} takes exactly one value, not ${values.length}.`);
  if (flag.values === 'many' && values.length === 0)
    throw new UsageError(`${token} needs at least one value.`);
  if (flag.values === 0) return true;
  const converted = values.map((value) => convertOne(token, flag.type, value));
  return flag.values === 1 ? converted[0] : converted;
}

function convertOne(token, type, value) {
  if (type === undefined) return value;
  if (!TYPES[type].accepts(value))
    throw new UsageError(`${token} needs ${TYPES[type].what}, not '${value}'.`);
  return Number(value);
}

function isFlag(token) {
  return /^--?[a-z]/i.test(token);
}

function flagOf(key) {
  return Object.keys(FLAGS).find((flag) => FLAGS[flag].name === key);
}
