import { spellDuration } from '../../../contract/duration.js';
import { flagName } from '../../../contract/fields.js';
import { fieldWithRole } from '../../../contract/operations.js';
import type { LimitsAnswer } from '../../connection/answer-schemas.js';
import { UsageError } from '../../errors.js';
import type { Submission } from '../submission.js';

/**
 * Checks for how long a job asks to be kept.
 * @throws UsageError for longer than the server allows
 */
export function checkKeep(
  { operation, fields }: Pick<Submission, 'operation' | 'fields'>,
  { max_keep: most }: LimitsAnswer,
  server: string,
): void {
  const field = fieldWithRole(operation, 'keep');
  // Not a number where nothing is asked for, nor where the most is.
  const asked = Number(fields[field.name]);
  if (most === null || !(asked > most)) return;
  throw new UsageError(
    `--${flagName(field)} ${spellDuration(asked)} is too long: ${server} keeps a job for at most ${spellDuration(most)}`,
  );
}
