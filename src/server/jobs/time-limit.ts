import { spellDuration } from '../../contract/duration.js';
import { FieldError } from '../../contract/errors.js';
import { type FieldValue, mostTime } from '../../contract/fields.js';

/**
 * Seconds that a job may run; null for as long as it takes.
 * @param most what the server allows; null for any time
 * @param asked undefined asks for the most
 * @throws FieldError
 */
export function timeLimitWithin(
  most: number | null,
  field: string,
  asked: FieldValue | undefined,
): number | null {
  if (asked === undefined || asked === mostTime) return most;
  const seconds = Number(asked);
  if (seconds === 0) throw new FieldError(field, 'must be at least 1s, got 0s');
  if (most !== null && seconds > most) {
    throw new FieldError(
      field,
      `is at most ${spellDuration(most)} on this server, got ${spellDuration(seconds)}`,
    );
  }
  return seconds;
}
