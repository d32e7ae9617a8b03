import { excerpt } from '../../contract/quote.js';

/** A value that `--set` changes, as an app tells of it. */
interface Knob {
  /** As `--set` takes it. */
  readonly name: string;
  /** What it is without `--set`; undefined if the app does not say. */
  readonly value: unknown;
  /** What it may be, in words; empty if the app does not say. */
  readonly range: string;
  readonly about: string;
}

type Fields = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Most choices that are listed, and most knobs. */
const mostChoices = 8;
const mostKnobs = 300;
/** Longest value, in characters. */
const longestValue = 300;

/** A JSON value in words. */
export const shownValue = (value: unknown): string =>
  excerpt(typeof value === 'string' ? value : (JSON.stringify(value) ?? ''), longestValue);

function rangeOf({ choices, min, max }: Fields): string {
  if (Array.isArray(choices) && choices.length > 0) {
    const all = choices.map(shownValue);
    return all.length <= mostChoices ? all.join(' | ') : `one of ${all.length}`;
  }
  const [least, most] = [min, max].map((bound) =>
    bound === undefined || bound === null ? null : shownValue(bound),
  );
  if (least && most) return `${least} to ${most}`;
  if (least) return `at least ${least}`;
  return most ? `at most ${most}` : '';
}

const knob = (name: string, value: unknown, facts: Fields): Knob => ({
  name: excerpt(name, longestValue),
  value,
  range: rangeOf(facts),
  about: typeof facts.description === 'string' ? excerpt(facts.description) : '',
});

/**
 * The knobs of values and constraints, as KonfAI tells of them. A nested value is set by its whole path.
 * @param path of the values in the app's configuration
 */
function ofValues(values: Fields, constraints: Fields, path: string, prefix = ''): Knob[] {
  return Object.entries(values).flatMap(([key, value]) => {
    const given = constraints[key] ?? constraints['*'];
    const facts = isObject(given) ? given : {};
    if (isObject(value) && Object.keys(value).length > 0) {
      return ofValues(value, facts, path, `${prefix || (path && `${path}.`)}${key}.`);
    }
    return [knob(prefix + key, value, facts)];
  });
}

/** What an app may say of a knob beside its value. */
const factNames = ['default', 'value', 'min', 'max', 'choices', 'description'];

/** The knobs of a list by name, each with its value or with facts about it. */
const ofNames = (names: Fields): Knob[] =>
  Object.entries(names).map(([name, entry]) => {
    const hasFacts = isObject(entry) && factNames.some((each) => Object.hasOwn(entry, each));
    return hasFacts ? knob(name, entry.default ?? entry.value, entry) : knob(name, entry, {});
  });

/** The knobs that an app tells of, in the forms in which apps do. */
function knobsOf(parameters: unknown): Knob[] {
  if (Array.isArray(parameters)) {
    return parameters.flatMap((each) => {
      if (typeof each === 'string') return knob(each, undefined, {});
      return isObject(each) && typeof each.name === 'string'
        ? knob(each.name, each.default ?? each.value, each)
        : [];
    });
  }
  if (!isObject(parameters)) return [];
  const { values, constraints, path } = parameters;
  if (!isObject(values)) return ofNames(parameters);
  return ofValues(values, isObject(constraints) ? constraints : {}, typeof path === 'string' ? path : '');
}

/**
 * What `--set` changes of an app: a line for each name, with its value and what it may be, and one for what it is about.
 * @returns lines without an end; the second ones are indented
 */
export function knobLines(parameters: unknown): string[] {
  const knobs = knobsOf(parameters);
  const lines = knobs.slice(0, mostKnobs).flatMap(({ name, value, range, about }) => {
    const setting = value === undefined ? name : `${name} = ${shownValue(value)}`;
    return [range ? `${setting}  (${range})` : setting, ...(about ? [`  ${about}`] : [])];
  });
  return knobs.length > mostKnobs ? [...lines, `and ${knobs.length - mostKnobs} more`] : lines;
}
