import { overrideProblem, readParameters } from './app-parameters.js';
import type { AppBound, Field, FieldValues } from './fields.js';
import { kindWithoutVolume, type SentContent } from './file-kinds.js';
import type { Capability, Operation } from './operations.js';
import { counted, excerpt, quoteName } from './text.js';

/**
 * What an app declares about itself, checked against a request: by the client before it sends a byte, and by the server.
 * Whatever an app does not declare is not restricted.
 */

/** The part of `GET /repo_apps/{id}` that restricts requests. KonfAI's server may omit any of it. */
export interface AppFacts {
  readonly inputs: Readonly<
    Record<
      string,
      {
        readonly display_name: string;
        readonly volume_type?: string | undefined;
        readonly required?: boolean | null | undefined;
        readonly default?: unknown;
      }
    >
  >;
  readonly checkpoints_name: readonly string[] | null;
  readonly checkpoints_name_available: readonly string[] | null;
  readonly maximum_tta: number | null;
  readonly mc_dropout: number | null;
  readonly patch_size?: readonly number[] | null | undefined;
  readonly has_capabilities: readonly boolean[];
  readonly finetunable?: boolean | undefined;
  readonly parameters?: unknown;
}

/** A part of a request that an app does not accept. */
export interface AppRefusal {
  /** Null for the operation as a whole. */
  readonly field: Field | null;
  /** The requested value, as the user wrote it; null if repeating it adds nothing. */
  readonly value: string | null;
  /** The end of a sentence that begins with the app. */
  readonly problem: string;
}

/** The message about a listed app that cannot run, on both sides. */
export const notAvailable = (app: string, reason: string): string =>
  `The app ${quoteName(app)} is not available: ${excerpt(reason.replaceAll(/\s*\n\s*/g, ' '))}`;

/** The names of an app's checkpoints: those in its list, and those that were added on the server. */
export const checkpointsOf = (
  app: Pick<AppFacts, 'checkpoints_name' | 'checkpoints_name_available'>,
): string[] => [...new Set([...(app.checkpoints_name ?? []), ...(app.checkpoints_name_available ?? [])])];

/** What an app says it can do; undefined if it does not say. */
const capabilitiesOf = ({ has_capabilities: [inference, evaluation, uncertainty], finetunable }: AppFacts) =>
  ({ inference, evaluation, uncertainty, 'fine-tuning': finetunable }) satisfies Partial<
    Record<Capability, boolean | undefined>
  >;

/** What an app can do, in words. */
export const capabilityNames = (app: AppFacts): string[] =>
  Object.entries(capabilitiesOf(app)).flatMap(([name, has]) => (has ? [name] : []));

/**
 * Refuses an operation that the app says it does not support.
 * @param isWhole whether all fields have arrived
 */
function operationRefusals(
  operation: Operation,
  values: FieldValues,
  app: AppFacts,
  isWhole: boolean,
): AppRefusal[] {
  const has = capabilitiesOf(app);
  const known = capabilityNames(app);
  // The app declares nothing but its name.
  if (known.length === 0) return [];
  const missing = operation.needs.filter(({ capability, file: fileField, declinedBy }) => {
    if (has[capability] !== false) return false;
    // An optional part is needed unless the request leaves it out.
    if (declinedBy !== undefined && !(values[declinedBy] ?? isWhole)) return false;
    // Only an app that declares its evaluations rules out all others.
    if (capability === 'inference') return has.evaluation === true;
    // The app may have a file with another name than the default.
    const file = operation.fields.find(({ name }) => name === fileField);
    const asked = file && values[file.name];
    return asked === undefined ? isWhole : asked === file?.default;
  });
  return missing.map(({ capability, declinedBy }) => {
    const field = operation.fields.find(({ name }) => name === declinedBy) ?? null;
    const lacks = capability === 'fine-tuning' ? 'cannot be fine-tuned' : `has no ${capability}`;
    return { field, value: field && 'true', problem: `${lacks}; it has: ${known.join(', ')}` };
  });
}

type Check = (
  asked: { field: Field; values: FieldValues; groups: number | null },
  app: AppFacts,
) => string | null;

const atMost =
  (bound: 'maximum_tta' | 'mc_dropout'): Check =>
  ({ field, values }, app) => {
    const most = app[bound];
    if (most === null || Number(values[field.name] ?? 0) <= most) return null;
    return most === 0 ? 'takes none' : `takes at most ${most}`;
  };

const listed = (names: readonly string[]): string => names.map((name) => quoteName(name)).join(', ');

const baseName = (file: string): string => file.split('/').at(-1) ?? file;

/** Whether a name refers to a checkpoint: apps may accept it without its directory or extension. */
function isMeant(checkpoint: string, name: string): boolean {
  const [own, asked] = [baseName(checkpoint), baseName(name)];
  return own === asked || own.startsWith(`${asked}.`);
}

const hasNone = 'has no checkpoints to choose from';

/** Whether an app declares its checkpoints, even if it declares that it has none. */
const saysCheckpoints = ({ checkpoints_name, checkpoints_name_available }: AppFacts): boolean =>
  checkpoints_name !== null && checkpoints_name_available !== null;

const checks: Readonly<Record<Exclude<AppBound, 'parameters'>, Check>> = {
  maximum_tta: atMost('maximum_tta'),
  mc_dropout: atMost('mc_dropout'),

  checkpointCount: ({ field, values }, app) => {
    // Checkpoints that were added to an app do not count.
    const names = app.checkpoints_name;
    // If checkpoint names are given, the number is not passed to the app.
    const isUnused = field.unless !== undefined && values[field.unless] !== undefined;
    // One network, which is all that an app without checkpoints has, is no ensemble.
    if (isUnused || names === null || Number(values[field.name] ?? 0) <= Math.max(1, names.length))
      return null;
    return names.length === 0 ? hasNone : `has ${counted(names.length, 'checkpoint')}: ${listed(names)}`;
  },

  checkpointNames: ({ field, values }, app) => {
    const known = checkpointsOf(app);
    const asked = [values[field.name] ?? []].flat().map(String);
    const unknown = asked.filter((name) => !known.some((each) => isMeant(each, name)));
    if (unknown.length === 0 || !saysCheckpoints(app)) return null;
    if (known.length === 0) return hasNone;
    return `has no checkpoint ${listed(unknown)}; it has: ${listed(known)}`;
  },

  patchSize: ({ field, values }, { patch_size: own }) => {
    const asked = [values[field.name] ?? []].flat();
    if (!own || asked.length === 0 || asked.length === own.length) return null;
    return `takes a patch size of ${counted(own.length, 'number')}, such as ${own.join(',')}`;
  },

  inputs: ({ groups }, { inputs }) => {
    const all = Object.entries(inputs);
    if (groups === null || all.length === 0) return null;
    const needed = all.filter(([, input]) => input.required === true && !input.default);
    const say = (words: string, volumes: typeof all) => {
      const names = volumes.map(([key, { display_name }]) => display_name || key);
      const order = names.length > 1 ? ', in this order' : '';
      return `${words} ${counted(names.length, 'group')} of inputs${order}: ${listed(names)}; got ${groups}`;
    };
    if (groups < needed.length) return say('needs', needed);
    return groups > all.length ? say(needed.length < all.length ? 'takes at most' : 'takes', all) : null;
  },
};

/**
 * The parts of a request that an app does not accept.
 * @param values the given values, including defaults once all fields have arrived
 * @param groups number of groups for each file field; null while fields may still arrive
 */
export function refusals(
  app: AppFacts,
  operation: Operation,
  values: FieldValues,
  groups: Readonly<Record<string, number>> | null,
): AppRefusal[] {
  const parameters = readParameters(app.parameters);
  const ofFields = operation.fields.flatMap((field): AppRefusal[] => {
    if (field.bound === undefined) return [];
    const value = values[field.name];
    if (field.bound === 'parameters') {
      return [value ?? []].flat().flatMap((each) => {
        const problem = overrideProblem(parameters, String(each));
        return problem === null ? [] : [{ field, value: String(each), problem }];
      });
    }
    const problem = checks[field.bound]({ field, values, groups: groups && (groups[field.name] ?? 0) }, app);
    return problem === null ? [] : [{ field, value: value === undefined ? null : String(value), problem }];
  });
  return [...operationRefusals(operation, values, app, groups !== null), ...ofFields];
}

/** The values of `volume_type` that restrict an input to volumes. An app may use other words, which restrict nothing. */
export const volumeTypes: readonly string[] = ['VOLUME', 'SEGMENTATION'];

/**
 * The files that an app refuses because its inputs must be volumes.
 * @param groups the files of each group of inputs, in their order
 */
export function fileRefusals(
  app: Pick<AppFacts, 'inputs'>,
  operation: Operation,
  groups: readonly (readonly SentContent[])[],
): AppRefusal[] {
  const field = operation.fields.find(({ bound }) => bound === 'inputs');
  if (!field) return [];
  const inputs = Object.entries(app.inputs);
  return groups.flatMap((files, at) => {
    const [key, input] = inputs[at] ?? [];
    if (!input || !volumeTypes.includes(input.volume_type ?? '')) return [];
    return files.flatMap((file): AppRefusal[] => {
      const what = kindWithoutVolume(file);
      if (what === null) return [];
      const name = quoteName(input.display_name || (key ?? ''));
      return [
        { field, value: null, problem: `takes volumes as ${name}, and ${quoteName(file.name)} is ${what}` },
      ];
    });
  });
}
