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
  'tags',
  'parameters',
  'checkpoints',
] as const;

export type ValueSource = (typeof valueSources)[number];

/** What completes a flag or an argument: a fixed list, files, values of a source, or nothing. */
export type Values = readonly string[] | ValueSource | 'files' | 'directories' | 'anything';

/** A flag as it is completed. */
export interface CompletedFlag {
  /** All spellings, with their dashes. */
  readonly names: readonly string[];
  readonly description: string;
  /** Null for a flag that takes no value. */
  readonly values: Values | null;
  readonly repeats: boolean;
}

/** The arguments of a command that are not flags. */
export interface CompletedArguments {
  readonly values: Values;
  readonly repeats: boolean;
}

/** A command as it is completed. */
export interface CompletedCommand {
  /** Its name, followed by its aliases. */
  readonly names: readonly [string, ...string[]];
  readonly description: string;
  readonly flags: readonly CompletedFlag[];
  readonly arguments: CompletedArguments | null;
}
