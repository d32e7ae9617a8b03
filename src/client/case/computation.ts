import { createHash } from 'node:crypto';
import { type FieldValue, readText } from '../../contract/index.js';
import type { AppAnswer } from '../connection/index.js';
import type { DeidentifiedNote } from '../outgoing.js';
import type { Submission } from '../submission.js';
import type { Computation, RecordedInput } from './record.js';

/** Roles of fields that determine where and how a job runs, but not what it computes. */
const rolesOutsideKey = ['keep', 'timeLimit', 'retryAlone', 'tag', 'deidentified', 'gpus', 'workers'];

/** The values of all fields that affect a result, sorted by name; null for a field with neither a value nor a default. */
function settingsOf({ operation, fields, options }: Submission): Record<string, FieldValue | null> {
  const used = operation.fields.filter(
    ({ name, kind, role }) =>
      kind !== 'files' && kind !== 'archive' && name !== 'quiet' && !(role && rolesOutsideKey.includes(role)),
  );
  const values = used.map((field) => {
    const { name } = field;
    const value = options[name] ?? readText(field, fields[name] ?? '') ?? field.default ?? null;
    return [name, value] as const;
  });
  return Object.fromEntries(values.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The unit that the app states for its images. Null if it states none or several, because a record has room for one. */
function unitOf(volumes: (AppAnswer & { available: true })['inputs'] = {}): string | null {
  const images = Object.values(volumes).filter((each) => each.volume_type === 'VOLUME');
  const [first, ...others] = new Set(images.map((each) => each.unit));
  return others.length === 0 && first !== undefined ? first.slice(0, 20) : null;
}

/**
 * Describes what a submission computes, and with which versions and settings.
 * @param view the app's description; null if the server gives none
 * @param clientVersion of this program
 */
export function computationOf(
  submission: Submission,
  view: AppAnswer | null,
  deidentified: DeidentifiedNote | null,
  clientVersion: string,
): Computation {
  const { operation, app, fields } = submission;
  const described = view?.available ? view : null;
  const named = operation.fields.find(({ bound }) => bound === 'checkpointNames');
  const chosen = named && readText(named, fields[named.name] ?? '');
  // The results of other operations are no images, but scores for example.
  const images = operation.writesOutputs ? described?.outputs : {};
  return {
    GeneratedBy: [
      {
        Name: app,
        ...(described ? { Description: described.display_name } : {}),
        ...(described?.repository ? { CodeURL: `https://huggingface.co/${described.repository.name}` } : {}),
      },
      { Name: 'remote-app', Version: clientVersion },
    ],
    operation: operation.segment,
    app,
    app_version: described?.version ?? null,
    checkpoints: (chosen as string[] | undefined) ?? described?.checkpoints_name ?? [],
    options: settingsOf(submission),
    deidentified: deidentified && { ...deidentified, allowed: [...deidentified.allowed] },
    labels: described?.terminology ?? {},
    citation: described?.citation ?? [],
    units: { inputs: unitOf(described?.inputs), outputs: unitOf(images) },
    client_version: clientVersion,
  };
}

const sha256 = (value: unknown): string => createHash('sha256').update(JSON.stringify(value)).digest('hex');

/** A hash of what was sent: contents, names and grouping. */
export const digestOf = (inputs: readonly RecordedInput[]): string =>
  sha256(inputs.map(({ field, group, name, sha256 }) => [field, group, name, sha256]));

/** The key of a case: equal for equal inputs, app, version and settings. @param digest of its inputs */
export const keyOf = (
  { operation, app, app_version, checkpoints, options, deidentified }: Computation,
  digest: string,
): string => {
  const made = ['remote-app case', 1, operation, app, app_version, checkpoints, options, digest];
  return sha256(deidentified === null ? made : [...made, deidentified.mode, deidentified.allowed]);
};
