import { fieldWithRole, type Operation } from '../../../contract/operations.js';
import type { LimitsAnswer } from '../../connection/answer-schemas.js';

/** Seconds in which a command that reaches its server again asks for the result. */
const margin = 60;

/**
 * The field that has a server keep a job for as long as a command waits for a server that is away: the job may end at
 * the beginning of an outage, and its result is fetched at the end.
 * @param longestOutage in seconds
 * @returns no field where the server does not say how long it keeps a job at most: it may not know the field
 */
export function keptForAnOutage(
  operation: Operation,
  longestOutage: number,
  { max_keep: most }: LimitsAnswer,
): Readonly<Record<string, string>> {
  if (most === null) return {};
  return {
    [fieldWithRole(operation, 'keep').name]: String(Math.min(Math.ceil(longestOutage) + margin, most)),
  };
}
