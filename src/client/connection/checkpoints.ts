import type { AvailableAppAnswer } from './answer-schemas.js';

/** The names of an app's checkpoints: those that it lists, and those that were added to it on the server. */
export const checkpointsOf = (app: AvailableAppAnswer): string[] => [
  ...new Set([...(app.checkpoints_name ?? []), ...(app.checkpoints_name_available ?? [])]),
];
