/** The shells that there is a script for. */
export const shells = ['bash', 'zsh', 'fish'] as const;

export type Shell = (typeof shells)[number];

/** Values that the scripts ask the command line for when Tab is pressed. */
export const valueSources = [
  'apps',
  'jobs',
  'active-jobs',
  'ended-jobs',
  'profiles',
  'gpus',
  'states',
] as const;

export type ValueSource = (typeof valueSources)[number];
