/** The kind of a field's value, which determines how a form, a flag and a command line spell it. */
export type FieldKind =
  /** Any number of file parts, split into groups by the field `<name>_groups`. */
  | 'files'
  /** One file part: a zip archive. The app gets the directory that it extracts to. */
  | 'archive'
  | 'integer'
  | 'number'
  | 'boolean'
  /** A plain name: no separator, no leading dash. */
  | 'name'
  /** A relative path inside the app: no `..`, no leading dash. */
  | 'path'
  /** Comma-separated relative paths inside the app. */
  | 'paths'
  /** Comma-separated GPU ids as nvidia-smi gives them. */
  | 'gpus'
  /** A list of integers. */
  | 'integers'
  /** A list of `NAME=VALUE`. */
  | 'overrides'
  /** Free text on one line. */
  | 'text'
  /** A time: seconds, or with a unit as in `90s`, `15m`, `12h` and `7d`; or `max`, for the maximum that the server allows. */
  | 'duration';

/** What a field is for, if the program does more with it than pass its value on. */
export type FieldRole =
  /** Takes the positional paths of remote-app's command line. */
  | 'paths'
  /** The GPUs that a job requests; on the app's command line, those that it was granted. */
  | 'gpus'
  /** The workers of a CPU job; left off the app's command line if GPUs were granted. */
  | 'workers'
  /** How long the job is kept after it ends: for the service only, never on the app's command line. */
  | 'keep'
  /** How long the job may run: also for the service only. */
  | 'timeLimit'
  /** Whether a job that runs out of memory runs once more, with its devices to itself: also for the service only. */
  | 'retryAlone'
  /** The user's own label for a job or a set of jobs: also for the service only. */
  | 'tag'
  /** The client's declaration that nothing sent identifies a person: also for the service only. No flag sets it directly. */
  | 'deidentified';

/** The limit on a field's value from an app's description (`GET /repo_apps/{id}`), which `app-checks` checks on both sides. */
export type AppBound =
  /** At most this many. */
  | 'maximum_tta'
  | 'mc_dropout'
  /** At most the number of the app's checkpoints. */
  | 'checkpointCount'
  /** Names of the app's checkpoints. */
  | 'checkpointNames'
  /** As many numbers as the app's own patch size has. */
  | 'patchSize'
  /** At least as many groups as the app has required inputs, and at most as many as it has inputs. */
  | 'inputs'
  /** Names and values of the app's parameters. */
  | 'parameters';

const rolesOfService: ReadonlySet<FieldRole | undefined> = new Set([
  'keep',
  'timeLimit',
  'retryAlone',
  'tag',
  'deidentified',
]);

/** Whether a field is only for the service: it never reaches an app's command line. */
export const isOfService = ({ role }: Field): boolean => rolesOfService.has(role);

/** Whether the user sets the field with its flag. The client sets the others itself. */
export const isTyped = ({ role }: Field): boolean => role !== 'deidentified';

/** The value of a `duration` that stands for the maximum that the server allows. */
export const maxDuration = 'max';

/** A field's parsed value; a time is in seconds. Lists are never empty. */
export type FieldValue = string | number | boolean | readonly string[] | readonly number[];

/** Values by field name; fields without a value or default are absent. */
export type FieldValues = Readonly<Record<string, FieldValue>>;

/** One field of an operation, as data. Everything else about the field is derived from this. */
export interface Field {
  /** Its name in the form. */
  readonly name: string;
  readonly kind: FieldKind;
  readonly role?: FieldRole;
  /** One line for help texts and the reference page. */
  readonly help: string;
  readonly required?: boolean;
  readonly default?: string | number | boolean;
  /** Minimum of a number, or of each number in a list. */
  readonly min?: number;
  /** Exclusive lower bound of a number. */
  readonly above?: number;
  /** The flag on the app's command line; a field without one is a positional argument. */
  readonly argument?: string;
  /** Another field that expresses the same thing differently: remote-app's command line accepts only one of the two. */
  readonly alternative?: string;
  /** Left off the app's command line if this other field is given. */
  readonly unless?: string;
  /** Sent inside the JSON field `options` instead of as a field of its own. */
  readonly option?: true;
  /** The flag on remote-app's command line, if it is not the name with dashes. */
  readonly flag?: string;
  readonly char?: string;
  readonly bound?: AppBound;
}

/** The largest integer that every language of apps can represent. */
export const maxInteger = 2 ** 31 - 1;

/** The form field that holds the JSON object of an operation's options. */
export const optionsField = 'options';

/** The form field that holds the group sizes of a `files` field. */
export const groupsField = (field: Field): string => `${field.name}_groups`;

/** The field's flag on remote-app's command line, without the dashes. */
export const flagName = (field: Field): string => field.flag ?? field.name.replaceAll('_', '-');

/** Whether the field is sent as file parts. */
export const carriesFiles = (field: Field): boolean => field.kind === 'files' || field.kind === 'archive';
