import { excerpt, nearest, quoteName } from './text.js';
import { numberOf } from './values.js';

type Facts = Readonly<Record<string, unknown>>;

/** A value that `--set` can change, as described by the app. */
export interface Parameter {
  /** The name as given to `--set`. */
  readonly name: string;
  /** The default; undefined if the app does not say. */
  readonly value: unknown;
  /** The app's further details, which have not been validated. */
  readonly facts: Facts;
  /** The keys that lead to `facts` within the app's `parameters`. */
  readonly path: readonly PropertyKey[];
}

export interface Parameters {
  readonly all: readonly Parameter[];
  /** Whether unknown names are rejected. False for KonfAI's form, where every value of the configuration can be set. */
  readonly isComplete: boolean;
}

/** Whether a JSON value is an object, and neither null nor a list. */
export const isObject = (value: unknown): value is Facts =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const types = ['number', 'integer', 'boolean', 'text'] as const;
type ParameterType = (typeof types)[number];

/** The facts that an app may state about a parameter. */
const factNames = ['type', 'default', 'min', 'max', 'choices', 'description'];

/** A JSON value as text. */
export const shownValue = (value: unknown): string =>
  excerpt(typeof value === 'string' ? value : (JSON.stringify(value) ?? ''), 300);

/**
 * The values and constraints that KonfAI reports. A nested value is set by its whole path.
 * @param path of the values in the app's configuration
 */
function ofValues(values: Facts, constraints: Facts, path: string, prefix = ''): Parameter[] {
  return Object.entries(values).flatMap(([key, value]) => {
    const given = constraints[key] ?? constraints['*'];
    const facts = isObject(given) ? given : {};
    if (isObject(value) && Object.keys(value).length > 0) {
      return ofValues(value, facts, path, `${prefix || (path && `${path}.`)}${key}.`);
    }
    return [{ name: prefix + key, value, facts, path: [] }];
  });
}

/** Reads parameters in either of the forms that apps use: by name, or KonfAI's. */
export function readParameters(parameters: unknown): Parameters {
  if (!isObject(parameters)) return { all: [], isComplete: false };
  const { values, constraints, path } = parameters;
  if (isObject(values)) {
    const from = typeof path === 'string' ? path : '';
    return { all: ofValues(values, isObject(constraints) ? constraints : {}, from), isComplete: false };
  }
  const all = Object.entries(parameters).map(([name, entry]): Parameter => {
    const hasFacts = isObject(entry) && factNames.some((each) => Object.hasOwn(entry, each));
    return hasFacts
      ? { name, value: entry.default, facts: entry, path: [name] }
      : { name, value: entry, facts: {}, path: [name] };
  });
  return { all, isComplete: all.length > 0 };
}

const choicesOf = ({ choices }: Facts): readonly unknown[] => (Array.isArray(choices) ? choices : []);

const boundOf = (bound: unknown): number | null => (typeof bound === 'number' ? bound : null);

/** The kind of text that a parameter takes; null if it takes any text. */
function typeOf({ value, facts }: Parameter): ParameterType | null {
  const stated = types.find((each) => each === facts.type);
  if (stated) return stated;
  const example: unknown = Array.isArray(value) ? value[0] : value;
  if (typeof example === 'boolean') return 'boolean';
  const isNumber = typeof example === 'number' || boundOf(facts.min) !== null || boundOf(facts.max) !== null;
  return isNumber ? 'number' : null;
}

function isChoice(choice: unknown, text: string): boolean {
  if (typeof choice === 'number') return numberOf(text) === choice;
  if (typeof choice === 'boolean') return text.toLowerCase() === String(choice);
  return shownValue(choice) === text;
}

/** Names in a sentence: `'a', 'b' or 'c'`. */
function alternatives(values: readonly unknown[]): string {
  const names = values.map((each) => quoteName(shownValue(each)));
  return names.length > 1 ? `${names.slice(0, -1).join(', ')} or ${names.at(-1)}` : names.join('');
}

/** What a parameter accepts instead of this text, as the end of a sentence about its app; null if the text is valid. */
function problemWith(parameter: Parameter, text: string): string | null {
  const { facts } = parameter;
  const name = quoteName(parameter.name);
  const choices = choicesOf(facts);
  if (choices.length > 0) {
    if (choices.some((each) => isChoice(each, text))) return null;
    return `takes ${alternatives(choices)} for ${name}`;
  }
  const type = typeOf(parameter);
  if (type === 'boolean' && !/^(true|false)$/i.test(text)) return `takes true or false for ${name}`;
  if (type !== 'number' && type !== 'integer') return null;
  const number = numberOf(text);
  if (number === undefined) return `takes ${type === 'number' ? 'a number' : 'an integer'} for ${name}`;
  if (type === 'integer' && !Number.isInteger(number)) return `takes an integer for ${name}`;
  const [least, most] = [boundOf(facts.min), boundOf(facts.max)];
  if ((least === null || number >= least) && (most === null || number <= most)) return null;
  if (least !== null && most !== null) return `takes ${name} from ${least} to ${most}`;
  return least === null ? `takes ${name} of at most ${most}` : `takes ${name} of at least ${least}`;
}

/** Like `problemWith`, for a value that may be a list: each item is checked. */
function problemWithValue(parameter: Parameter, text: string): string | null {
  if (parameter.value === null && /^(null|none)$/i.test(text)) return null;
  if (!Array.isArray(parameter.value)) return problemWith(parameter, text);
  const items = text.replace(/^\[(.*)\]$/s, '$1').split(',');
  return items.map((item) => problemWith(parameter, item.trim())).find((each) => each !== null) ?? null;
}

/**
 * Why an app that declares parameters rejects `NAME=VALUE`, as the end of a sentence about the app; null if it does not. A
 * parameter whose value is an object can also be set by a path: `post.threshold`.
 */
export function overrideProblem({ all, isComplete }: Parameters, override: string): string | null {
  if (!isComplete) return null;
  const end = override.indexOf('=');
  const name = override.slice(0, end);
  const parameter = all.find((each) => each.name === name);
  if (parameter) return problemWithValue(parameter, override.slice(end + 1));
  if (all.some((each) => isObject(each.value) && name.startsWith(`${each.name}.`))) return null;
  const names = all.map((each) => each.name);
  const near = nearest(name, names);
  const others =
    near === null ? `; it has: ${excerpt(names.join(', '), 500)}` : ` (did you mean ${quoteName(near)}?)`;
  return `has no parameter ${quoteName(name)}${others}`;
}

/** A problem at one place in the `parameters` of an `app.json`. */
export interface ParameterFault {
  readonly path: readonly PropertyKey[];
  readonly problem: string;
}

const got = (value: unknown): string => `got ${quoteName(shownValue(value))}`;

/** Why this value is invalid for the fact; null if it is valid. */
function factProblem(name: string, value: unknown): string | null {
  if (value === null || value === undefined) return null;
  if ((name === 'min' || name === 'max') && typeof value !== 'number')
    return `must be a number, ${got(value)}`;
  if (name === 'description' && typeof value !== 'string') return `must be a text, ${got(value)}`;
  if (name === 'type' && !types.some((each) => each === value)) {
    return `must be one of: ${types.join(', ')}, ${got(value)}`;
  }
  if (name !== 'choices') return null;
  if (!Array.isArray(value)) return `must be a list, ${got(value)}`;
  return value.length === 0 ? 'must not be empty' : null;
}

/** The problems of one parameter, each with the name of the fact. */
function faultsOf(parameter: Parameter): (readonly [string, string])[] {
  const { name, value, facts } = parameter;
  const faults = Object.entries(facts).flatMap(([key, fact]): (readonly [string, string])[] => {
    const problem = factProblem(key, fact);
    if (problem !== null) return [[key, problem]];
    if (factNames.includes(key)) return [];
    const near = nearest(key, factNames) ?? factNames.find((each) => key.startsWith(each));
    return near === undefined ? [] : [[key, `is not known; did you mean ${quoteName(near)}?`]];
  });
  const [least, most] = [boundOf(facts.min), boundOf(facts.max)];
  if (least !== null && most !== null && least > most) faults.push(['min', `is above max, ${most}`]);
  const hasDefault = value !== undefined && value !== null && !isObject(value);
  const problem = hasDefault ? problemWithValue(parameter, shownValue(value)) : null;
  if (problem !== null)
    faults.push(['default', `is ${quoteName(shownValue(value))}: the app itself ${problem}`]);
  if (!/^[^-=\s][^=]*$/.test(name) || name !== name.trim()) {
    faults.push([
      '',
      `${quoteName(name)} cannot be set: a name has no '=', and does not begin with '-' or a space`,
    ]);
  }
  return faults;
}

/** The problems in an app's declared parameters. Faulty parts are not enforced. */
export function parameterFaults(parameters: unknown): ParameterFault[] {
  const here = ['parameters'];
  if (parameters === undefined || parameters === null) return [];
  if (!isObject(parameters))
    return [{ path: here, problem: `must be an object of parameters by name, ${got(parameters)}` }];
  return readParameters(parameters)
    .all.filter(({ path }) => path.length > 0)
    .flatMap((parameter) =>
      faultsOf(parameter).map(([key, problem]) => ({
        path: [...here, ...parameter.path, ...(key === '' ? [] : [key])],
        problem,
      })),
    );
}
