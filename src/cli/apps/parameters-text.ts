import { excerpt, readParameters, shownValue } from '../../contract/index.js';

/** Most choices that are listed, and most parameters. */
const mostChoices = 8;
const mostShown = 300;

function rangeOf({ choices, min, max }: Readonly<Record<string, unknown>>): string {
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

/**
 * What `--set` changes of an app: a line for each name, with its value and what it may be, and one for what it is about.
 * @returns lines without an end; the second ones are indented
 */
export function parameterLines(parameters: unknown): string[] {
  const { all } = readParameters(parameters);
  const lines = all.slice(0, mostShown).flatMap(({ name, value, facts }) => {
    const shown = excerpt(name, 300);
    const setting = value === undefined ? shown : `${shown} = ${shownValue(value)}`;
    const range = rangeOf(facts);
    const about = typeof facts.description === 'string' ? excerpt(facts.description) : '';
    return [range ? `${setting}  (${range})` : setting, ...(about ? [`  ${about}`] : [])];
  });
  return all.length > mostShown ? [...lines, `and ${all.length - mostShown} more`] : lines;
}
