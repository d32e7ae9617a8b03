import type { AppAnswer, AvailableAppAnswer } from '../../client/connection/index.js';
import { capabilityNames, checkpointsOf, excerpt, readParameters, shownValue } from '../../contract/index.js';
import { formatPairs, wrapped } from '../terminal/index.js';

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
function parameterLines(parameters: unknown): string[] {
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

/** In the order in which an app takes them, by the names that a refused submission has for them. */
function volumes(volumes: AvailableAppAnswer['inputs']): string {
  return Object.entries(volumes)
    .map(([key, { display_name: name, volume_type: type, required }]) => {
      const more = [name && key, type, required === false && 'optional'].filter(Boolean).join(', ');
      return `${name || key} (${more})`;
    })
    .join(', ');
}

const atMost = (count: number | null): string | null => (count === null ? null : String(count));

/** Where an app of a repository comes from. */
const origin = ({ repository }: AvailableAppAnswer): string | null =>
  repository
    ? `${repository.name}, ${repository.revision}, at commit ${repository.commit.slice(0, 12)}`
    : null;

/** Keys that have a line or a heading of their own, or that say what another line says. */
const shownKeys = new Set([
  ...[
    'app',
    'available',
    'display_name',
    'description',
    'short_description',
    'checkpoints_name',
    'terminology',
  ],
  ...[
    'checkpoints_name_available',
    'maximum_tta',
    'mc_dropout',
    'patch_size',
    'has_capabilities',
    'finetunable',
  ],
  ...['inputs', 'outputs', 'inputs_evaluations', 'task', 'vram_plan', 'parameters', 'tta', 'models', 'icon'],
]);

/** A value of an app that we do not know: `a: 1, b: 2` where that says all. */
function unknownValue(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  const entries = typeof value === 'object' && !Array.isArray(value) ? Object.entries(value) : [];
  const isFlat = entries.length > 0 && entries.every(([, each]) => typeof each !== 'object');
  return isFlat ? entries.map(([key, each]) => `${key}: ${each}`).join(', ') : shownValue(value);
}

/** The evaluations with what each reads. */
const evaluations = ({ inputs_evaluations: all }: AvailableAppAnswer): string =>
  Object.entries(all)
    .flatMap(([name, byFile]) => Object.keys(byFile).map((file) => `${name} (${file})`))
    .join(', ');

const labels = ({ terminology = {} }: AvailableAppAnswer): string =>
  Object.entries(terminology)
    .map(([value, { name }]) => `${value} ${name}`)
    .join(', ');

/**
 * One app, one fact a line, then what `--set` changes. What the app does not tell is left out.
 * @param columns of the terminal; without it lines are as long as they are
 */
export function describeApp(app: AppAnswer, columns?: number): string[] {
  if (!app.available) {
    return [excerpt(`${app.app} is not available: ${app.reason ?? 'its files cannot be read'}`)];
  }
  const facts = formatPairs(factsOf(app), columns);
  const parameters = parameterLines(app.parameters);
  if (parameters.length === 0) return facts;
  const heading = 'Parameters (--set NAME=VALUE) and their defaults:';
  return [...facts, '', heading, ...parameters.flatMap((line) => wrapped(`  ${line}`, columns, 6))];
}

function factsOf(app: AvailableAppAnswer): (readonly [string, string | null])[] {
  const others = Object.entries(app).filter(([key]) => !shownKeys.has(key));
  return [
    ['App', app.app],
    ['Name', app.display_name],
    ['About', (app.description || app.short_description).trim().replaceAll(/\s+/g, ' ')],
    ['Task', unknownValue(app.task)],
    ['Can do', capabilityNames(app).join(', ')],
    ['Inputs', volumes(app.inputs)],
    ['Outputs', volumes(app.outputs)],
    ['Labels', labels(app)],
    ['Evaluations', evaluations(app)],
    ['Checkpoints', checkpointsOf(app).join(', ') || null],
    ['TTA at most', atMost(app.maximum_tta)],
    ['MC dropout at most', atMost(app.mc_dropout)],
    ['Patch size', app.patch_size?.join(' x ') ?? null],
    ['Memory plan', unknownValue(app.vram_plan)],
    ['Repository', origin(app)],
    ['Not updated', app.repository?.problem ?? null],
    ...others.map(([key, value]) => [excerpt(key, 40), unknownValue(value)] as const),
  ];
}
