import { spellDuration } from '../../../contract/duration.js';
import { type FieldRole, flagName } from '../../../contract/fields.js';
import { fieldWithRole, operations } from '../../../contract/operations.js';
import type { LimitsAnswer } from '../../connection/index.js';
import { UsageError } from '../../errors.js';
import type { Submission } from '../submission.js';

type Timed = Pick<Submission, 'operation' | 'fields'>;

/** @throws UsageError for longer than the most; null where the server does not say, or has no limit */
function checkTime({ operation, fields }: Timed, role: FieldRole, most: number | null, rule: string): void {
  const field = fieldWithRole(operation, role);
  // Not a number where nothing is asked for, nor where the most is.
  const asked = Number(fields[field.name]);
  if (most === null || !(asked > most)) return;
  throw new UsageError(
    `--${flagName(field)} ${spellDuration(asked)} is too long: ${rule} at most ${spellDuration(most)}`,
  );
}

/**
 * Checks for how long a job asks to be kept, and to run.
 * @throws UsageError for longer than the server allows
 */
export function checkTimes(submission: Timed, limits: LimitsAnswer, server: string): void {
  const { max_keep, max_run_time, max_fine_tune_time } = limits;
  checkTime(submission, 'keep', max_keep, `${server} keeps a job for`);
  const isFineTuning = submission.operation.segment === operations.fine_tune.segment;
  const most = isFineTuning ? max_fine_tune_time : max_run_time;
  checkTime(submission, 'timeLimit', most, `on ${server} a job may run for`);
}
