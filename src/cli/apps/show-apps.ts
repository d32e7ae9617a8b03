import {
  type AppAnswer,
  type AvailableAppAnswer,
  app,
  appList,
  type Connection,
  checkAppId,
  pause,
  type RefreshAnswer,
  refresh,
  refreshed,
} from '../../client/connection/index.js';
import { UsageError } from '../../client/errors.js';
import type { Reporter } from '../../client/reporter.js';
import {
  type AppList,
  capabilityNames,
  checkpointsOf,
  commandOf,
  counted,
  excerpt,
  formatBytes,
  oneLine,
  readParameters,
  referenceText,
  shownValue,
} from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';
import { type CommandIo, columnsOf, formatPairs, wrapped } from '../terminal/index.js';
import { suggestingApp } from './app-choice.js';

/** Maximum numbers of choices and of parameters that are listed. */
const maxChoices = 8;
const maxParameters = 300;

function rangeOf({ choices, min, max }: Readonly<Record<string, unknown>>): string {
  if (Array.isArray(choices) && choices.length > 0) {
    const all = choices.map(shownValue);
    return all.length <= maxChoices ? all.join(' | ') : `one of ${all.length}`;
  }
  const [lower, upper] = [min, max].map((bound) =>
    bound === undefined || bound === null ? null : shownValue(bound),
  );
  if (lower && upper) return `${lower} to ${upper}`;
  if (lower) return `at least ${lower}`;
  return upper ? `at most ${upper}` : '';
}

/**
 * The parameters that `--set` can change: one line with name, default and accepted values, then one with the description.
 * @returns lines without line ends; every second one is indented
 */
function parameterLines(parameters: unknown): string[] {
  const { all } = readParameters(parameters);
  const lines = all.slice(0, maxParameters).flatMap(({ name, value, facts }) => {
    const shown = excerpt(name, 300);
    const setting = value === undefined ? shown : `${shown} = ${shownValue(value)}`;
    const range = rangeOf(facts);
    const about = typeof facts.description === 'string' ? excerpt(facts.description) : '';
    return [range ? `${setting}  (${range})` : setting, ...(about ? [`  ${about}`] : [])];
  });
  return all.length > maxParameters ? [...lines, `and ${all.length - maxParameters} more`] : lines;
}

/** Inputs or outputs in the order in which the app takes them, with the names that error messages use. */
function volumes(volumes: AvailableAppAnswer['inputs']): string {
  return Object.entries(volumes)
    .map(([key, { display_name: name, volume_type: type, required }]) => {
      const more = [name && key, type, required === false && 'optional'].filter(Boolean).join(', ');
      return `${name || key} (${more})`;
    })
    .join(', ');
}

const atMost = (count: number | null): string | null => (count === null ? null : String(count));

/** The repository that an app comes from. */
const origin = ({ repository }: AvailableAppAnswer): string | null =>
  repository
    ? `${repository.name}, ${repository.revision}, at commit ${repository.commit.slice(0, 12)}`
    : null;

/** The resources that the app declares for its jobs. */
const needs = ({ resources: { operations = {}, ...general } = {} }: AvailableAppAnswer): string =>
  [general, ...Object.entries(operations).map(([name, own]) => ({ [name]: unknownValue(own) }))]
    .filter((each) => Object.keys(each).length > 0)
    .flatMap((each) => unknownValue(each) ?? [])
    .join('; ');

/** The resources that jobs used on this server. */
const observed = ({ observed: all = [] }: AvailableAppAnswer): string =>
  all
    .map(({ operation, resource, jobs, median, maximum }) => {
      const what = `${commandOf(operation)}: ${resource.replace('gpu_', 'GPU ')}`;
      return `${what} ${formatBytes(median)} (median), ${formatBytes(maximum)} (maximum) in ${counted(jobs, 'job')}`;
    })
    .join('; ');

/** Formats a value that has not been validated: `a: 1, b: 2` for a flat object. */
function unknownValue(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  const entries = typeof value === 'object' && !Array.isArray(value) ? Object.entries(value) : [];
  const isFlat = entries.length > 0 && entries.every(([, each]) => typeof each !== 'object');
  return isFlat ? entries.map(([key, each]) => `${key}: ${each}`).join(', ') : shownValue(value);
}

/** The evaluations, each with the files that it reads. */
const evaluations = ({ inputs_evaluations: all }: AvailableAppAnswer): string =>
  Object.entries(all)
    .flatMap(([name, byFile]) => Object.keys(byFile).map((file) => `${name} (${file})`))
    .join(', ');

const labels = ({ terminology = {} }: AvailableAppAnswer): string =>
  Object.entries(terminology)
    .map(([value, { name }]) => `${value} ${name}`)
    .join(', ');

/**
 * Describes an app: one fact per line, then its parameters. Missing facts are left out.
 * @param columns of the terminal; without it, lines are not wrapped
 */
function describeApp(app: AppAnswer, columns?: number): string[] {
  if (!app.available) {
    return [excerpt(`${app.app} is not available: ${app.reason ?? 'its files cannot be read'}`)];
  }
  const facts = formatPairs(factsOf(app), columns);
  const parameters = parameterLines(app.parameters);
  if (parameters.length === 0) return facts;
  const heading = 'Parameters (--set NAME=VALUE) and their defaults:';
  return [...facts, '', heading, ...parameters.flatMap((line) => wrapped(`  ${line}`, columns, 6))];
}

const factsOf = (app: AvailableAppAnswer): (readonly [string, string | null])[] => [
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
  ['Needs', needs(app)],
  ['Observed', observed(app)],
  ['Cite', app.citation?.map(referenceText).join('; ') ?? null],
  ['Version', app.version ?? null],
  ['Repository', origin(app)],
  ['Not updated', app.repository?.problem ?? null],
];

/** Maximum number of apps described in a list, because each one costs a request. */
const maxDescribed = 50;
/** Maximum time for the server to describe an app, in seconds. */
const longestAnswer = 5;

/** A one-line description of an app; empty if the server gives none. */
function about(view: AppAnswer | null): string {
  if (!view) return '';
  if (!view.available) return `not available: ${view.reason ?? 'its files cannot be read'}`;
  const short = view.short_description.trim().replaceAll(/\s+/g, ' ');
  return [view.display_name, short].filter(Boolean).join(': ');
}

/** The apps with a short description each; only the identifier if the server gives none. */
async function listApps(
  connection: Connection,
  { apps: ids, loaded = [] }: AppList,
  columns: number,
): Promise<string[]> {
  const asked = ids.length > maxDescribed ? [] : ids;
  const views = await Promise.all(asked.map((id) => app(connection, id, longestAnswer).catch(() => null)));
  connection.signal?.throwIfAborted();
  const width = Math.max(0, ...ids.map((id) => oneLine(id).length));
  return ids.flatMap((id, index) => {
    const now = loaded.includes(id) ? 'loaded; ' : '';
    const line = `${oneLine(id).padEnd(width)}  ${now}${excerpt(about(views[index] ?? null), 300)}`.trimEnd();
    return wrapped(line, columns, Math.min(width + 2, 30));
  });
}

/** Milliseconds between two requests while the server refreshes its apps, and maximum wait for the refresh. */
const interval = 500;
const maxRefresh = 120_000;

function describe({ app, available, commit, problem }: RefreshAnswer['apps'][number]): string {
  const at = commit === null ? '' : ` at commit ${commit.slice(0, 12)}`;
  const what = available ? `available${at}` : 'not available';
  return oneLine(`${app}: ${what}${problem === null ? '' : `: ${excerpt(problem, 500)}`}`);
}

/** Makes the server look for new commits in its repositories, and waits for the result. */
export async function refreshApps(
  connection: Connection,
  reporter: Reporter,
): Promise<{ readonly lines: readonly string[]; readonly summary: RefreshAnswer }> {
  const end = monotonicTime() + maxRefresh;
  let found = await refresh(connection);
  try {
    while (found.refreshing && monotonicTime() < end) {
      reporter.waiting('The server looks for new commits');
      await pause(interval, connection.signal);
      found = await refreshed(connection);
    }
  } finally {
    reporter.waiting(null);
  }
  if (found.apps.length === 0) reporter.note(`No app of ${connection.server} comes from a repository`);
  if (found.refreshing) reporter.note('The server is still looking; this is what it knows so far');
  return { lines: found.apps.map(describe), summary: found };
}

export type AppsSummary =
  | AppList
  | AppAnswer
  | RefreshAnswer
  | { readonly app: string; readonly config: string; readonly files: number };

interface ShownApps {
  readonly lines: readonly string[];
  readonly summary: AppsSummary;
}

/** Lists the apps, describes one, or downloads the configuration of one to a directory. */
export async function showApps(
  connection: Connection,
  id: string | undefined,
  { config: configDirectory, force }: { readonly config?: string | undefined; readonly force: boolean },
  io: CommandIo,
  reporter: Reporter,
): Promise<ShownApps> {
  if (id) checkAppId(id);
  if (configDirectory !== undefined) {
    if (!id) throw new UsageError('Name the app whose configuration you want');
    const { saveAppConfig } = await import('../../client/result/index.js');
    const { output, files } = await suggestingApp(connection, id, () =>
      saveAppConfig(connection, id, configDirectory, force, reporter),
    );
    return { lines: [output], summary: { app: id, config: output, files } };
  }
  if (id) {
    const view = await suggestingApp(connection, id, () => app(connection, id));
    return { lines: describeApp(view, columnsOf(io.stdout)), summary: view };
  }
  const list = await appList(connection);
  const columns = columnsOf(io.stdout);
  // Scripts read identifiers; a person at a terminal also sees what each app is.
  const lines = columns === undefined ? list.apps.map(oneLine) : await listApps(connection, list, columns);
  return { lines, summary: list };
}
