/** What a field's value is, and with that how a form, a flag and a command line spell it. */
export type FieldKind =
  /** Any number of file parts, split into groups by the field `<name>_groups`. */
  | 'files'
  /** One file part: a zip archive, handed to the app as the directory that it extracts to. */
  | 'archive'
  | 'integer'
  | 'number'
  | 'boolean'
  /** A plain name: no separator, no leading dash. */
  | 'name'
  /** A relative path inside the app: no `..`, no leading dash. */
  | 'path'
  /** A comma-separated list of relative paths inside the app. */
  | 'paths'
  /** A comma-separated list of GPU ids as nvidia-smi gives them. */
  | 'gpus'
  /** A list of integers. */
  | 'integers'
  /** A list of `NAME=VALUE`. */
  | 'overrides'
  /** A person's own words, on one line. */
  | 'text'
  /** A time: seconds, or with a unit as in `90s`, `15m`, `12h` and `7d`; or `max`, for the most that the server allows. */
  | 'duration';

/** What a field is for, where the program does more with it than hand its value on. */
export type FieldRole =
  /** Takes the positional paths of our own command line. */
  | 'paths'
  /** The GPUs that a job asks for; on the app's command line, those that it was granted. */
  | 'gpus'
  /** The workers of a job that runs on the CPU; left off the app's command line where GPUs were granted. */
  | 'workers'
  /** How long the job is kept once it has ended: for the service alone, never on the app's command line. */
  | 'keep'
  /** How long the job may run: for the service alone as well. */
  | 'timeLimit'
  /** The person's own word for a job or a set of jobs: for the service alone as well. */
  | 'tag';

/**
 * What bounds a field's value in an app's description (`GET /repo_apps/{id}`): `app-checks` holds both sides' check of it.
 */
export type AppBound =
  /** At most this many. */
  | 'maximum_tta'
  | 'mc_dropout'
  /** At most as many as the app has checkpoints. */
  | 'checkpointCount'
  /** Names of the app's checkpoints. */
  | 'checkpointNames'
  /** At least as many groups as the app requires inputs, and at most as many as it has. */
  | 'inputs'
  /** Names and values of the app's parameters. */
  | 'parameters';

/** Whether a field is for the service alone: it never reaches an app's command line. */
export const isOfService = ({ role }: Field): boolean =>
  role === 'keep' || role === 'timeLimit' || role === 'tag';

/** The value of a `duration` that stands for the most that the server allows. */
export const mostTime = 'max';

/** A field's value once read; a time is in seconds. Lists are never empty. */
export type FieldValue = string | number | boolean | readonly string[] | readonly number[];

/** Values by field name; what was not given and has no default is not there. */
export type FieldValues = Readonly<Record<string, FieldValue>>;

/** One field of an operation, as data. Everything else about it is derived from this. */
export interface Field {
  /** As the form spells it. */
  readonly name: string;
  readonly kind: FieldKind;
  readonly role?: FieldRole;
  /** One line for help texts and the reference page. */
  readonly help: string;
  readonly required?: boolean;
  readonly default?: string | number | boolean;
  /** Least value of a number or of each number of a list. */
  readonly min?: number;
  /** A number must be greater than this. */
  readonly above?: number;
  /** The flag on the app's command line; a field without one is a positional argument. */
  readonly argument?: string;
  /** Another field that says the same in another way: our command line takes one of both. */
  readonly alternative?: string;
  /** Left off the command line where this other field is given. */
  readonly unless?: string;
  /** Travels inside the JSON field `options` rather than as a field of its own. */
  readonly option?: true;
  /** The flag on our own command line, where it is not the name with dashes. */
  readonly flag?: string;
  readonly char?: string;
  readonly bound?: AppBound;
}

/** Greatest integer that every language an app may be written in can read. */
export const maxInteger = 2 ** 31 - 1;

/** The form field that holds the JSON object of an operation's options. */
export const optionsField = 'options';

/** The form field that holds the group sizes of a `files` field. */
export const groupsField = (field: Field): string => `${field.name}_groups`;

/** The field's flag on our command line, without the dashes. */
export const flagName = (field: Field): string => field.flag ?? field.name.replaceAll('_', '-');

/** Whether the field travels as file parts. */
export const carriesFiles = (field: Field): boolean => field.kind === 'files' || field.kind === 'archive';
