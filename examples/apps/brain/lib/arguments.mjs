import { UsageError } from './errors.mjs';

// The files of settings that the server names have no use here: app.json has the parameters.

/**
 * Every flag of the command line, once. `values` is how many values follow: 0, 1 or 'many' (up to the next flag); `repeat`
 * collects one list per appearance. `-uncertainty` really has a single dash.
 */
const FLAGS = {
  '--tta': { name: 'tta', values: 1, type: 'count' },
  '--mc': { name: 'mc', values: 1, type: 'count' },
  '--ensemble': { name: 'ensemble', values: 1, type: 'count' },
  '-uncertainty': { name: 'uncertainty', values: 0 },
  '--prediction_file': { name: 'predictionFile', values: 1 },
  '--evaluation_file': { name: 'evaluationFile', values: 1 },
  '--uncertainty_file': { name: 'uncertaintyFile', values: 1 },
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
const INFERENCE = ['inputs', 'tta', 'mc', 'ensemble', 'uncertainty', 'predictionFile', 'overrides'];

/** Which flags an operation takes, and which it cannot do without. */
const OPERATIONS = {
  infer: { flags: INFERENCE, required: ['inputs'] },
  eval: { flags: ['inputs', 'gt', 'mask', 'evaluationFile'], required: ['inputs', 'gt'] },
  uncertainty: { flags: ['inputs', 'uncertaintyFile'], required: ['inputs'] },
  pipeline: {
    flags: [...INFERENCE, 'gt', 'mask', 'evaluationFile', 'uncertaintyFile'],
    required: ['inputs'],
  },
};

const DEFAULTS = {
  tta: 0,
  mc: 0,
  ensemble: 0,
  uncertainty: false,
  overrides: [],
  output: './Output/',
  quiet: false,
};

const TYPES = {
  count: { accepts: (value) => /^\d+$/.test(value), what: 'an integer of 0 or more' },
  positive: { accepts: (value) => /^[1-9]\d*$/.test(value), what: 'an integer of 1 or more' },
};

/** `OPERATION APP FLAGS...` as `{ operation, options }`, or a UsageError. */
export function parseArguments(argv) {
  const [operation, app, ...rest] = argv;
  const spec = Object.hasOwn(OPERATIONS, operation ?? '') ? OPERATIONS[operation] : undefined;
  if (spec === undefined)
    throw new UsageError(
      `Unknown operation '${operation ?? ''}': use one of ${Object.keys(OPERATIONS).join(', ')}.`,
    );
  if (app === undefined || isFlag(app))
    throw new UsageError(`${operation} needs the app as its first argument.`);
  const options = { ...DEFAULTS, ...parseFlags(rest, operation, spec) };
  for (const key of spec.required) {
    if (options[key] === undefined) throw new UsageError(`${operation} needs --${key}.`);
  }
  return { operation, options };
}

/** The devices that a resident app is started with: `--gpu 0` or `--cpu 4`. */
export function parseDevices(tokens) {
  return parseFlags(tokens, 'resident', { flags: [] });
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
    const value = convert(token, flag, tokens.slice(at + 1, end));
    at = end;
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
