import path from 'node:path';
import { counted } from '../../../contract/counted.js';
import { type AppBound, type Field, flagName } from '../../../contract/fields.js';
import { excerpt, quoteName } from '../../../contract/quote.js';
import type { AvailableAppAnswer } from '../../connection/answer-schemas.js';
import { checkpointsOf } from '../../connection/checkpoints.js';
import { UsageError } from '../../errors.js';
import type { Submission } from '../submission.js';

/** What is wrong with a field by the description of the app, as the end of a sentence; null if nothing is known to be. */
type Check = (submission: Submission, field: Field, app: AvailableAppAnswer) => string | null;

const atMost =
  (bound: 'maximum_tta' | 'mc_dropout'): Check =>
  ({ fields }, field, app) => {
    const most = app[bound];
    if (most === null || Number(fields[field.name] ?? 0) <= most) return null;
    return most === 0 ? 'takes none' : `takes at most ${most}`;
  };

const listed = (names: readonly string[]): string => names.map((name) => quoteName(name)).join(', ');

/** Whether a checkpoint is meant by a name: apps may take it without its directory or without its ending. */
function isMeant(checkpoint: string, name: string): boolean {
  const [own, asked] = [path.posix.basename(checkpoint), path.posix.basename(name)];
  return own === asked || own.startsWith(`${asked}.`);
}

const checks: Readonly<Record<AppBound, Check>> = {
  maximum_tta: atMost('maximum_tta'),
  mc_dropout: atMost('mc_dropout'),

  checkpointCount: ({ fields }, field, app) => {
    // Those that were added to an app do not count.
    const names = app.checkpoints_name ?? [];
    // An app is not given the number where the names are given.
    const isUnused = field.unless !== undefined && fields[field.unless] !== undefined;
    if (isUnused || names.length === 0 || Number(fields[field.name] ?? 0) <= names.length) return null;
    return `has ${counted(names.length, 'checkpoint')}: ${listed(names)}`;
  },

  checkpointNames: ({ fields }, field, app) => {
    const known = checkpointsOf(app);
    const asked = fields[field.name]?.split(',') ?? [];
    const unknown = asked.filter((name) => !known.some((each) => isMeant(each, name)));
    if (known.length === 0 || unknown.length === 0) return null;
    return `has no checkpoint ${listed(unknown)}; it has: ${listed(known)}`;
  },

  inputs: ({ files }, field, app) => {
    const needed = Object.entries(app.inputs).filter(([, { required }]) => required === true);
    const given = files.find((each) => each.field.name === field.name)?.groups.length ?? 0;
    if (given >= needed.length) return null;
    const names = needed.map(([key, { display_name }]) => display_name || key);
    const flag = field.char ? `-${field.char}` : `--${flagName(field)}`;
    return (
      `needs ${counted(needed.length, 'group')} of inputs, in this order: ${listed(names)}; ` +
      `got ${given}. The paths without a flag are the first group, and each ${flag} adds one`
    );
  },
};

/**
 * Checks a submission against the description of its app, as far as that says anything (interface.md, Apps).
 * @throws UsageError naming the flag as a person types it
 */
export function checkBounds(submission: Submission, app: AvailableAppAnswer): void {
  for (const field of submission.operation.fields) {
    const problem = field.bound && checks[field.bound](submission, field, app);
    if (!problem) continue;
    const value = submission.fields[field.name];
    const flag = value === undefined ? '' : `--${flagName(field)} ${excerpt(value, 200)}: `;
    throw new UsageError(`${flag}${flag ? 'the' : 'The'} app ${quoteName(app.app)} ${problem}`);
  }
}
