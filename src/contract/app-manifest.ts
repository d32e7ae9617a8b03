import { z } from 'zod';

/**
 * `app.json` of an app directory (interface.md, An app). Unknown keys are left alone. The descriptions are those of
 * docs/app.schema.json, which editors show.
 */

export const volumeSchema = z.object({
  display_name: z.string().describe('What the volume is, for a person'),
  volume_type: z.string().describe('VOLUME for an image, SEGMENTATION for labels; clients show it'),
  required: z.boolean().default(true).describe('false: the app runs without it'),
  default: z.string().nullable().default(null).describe('Left empty; for clients that know a default volume'),
});
const volumes = z.record(z.string(), volumeSchema);

export const appManifestSchema = z.object({
  display_name: z.string().describe("The app's name, for a person"),
  description: z.string().describe('What it does, with what limits, in a paragraph'),
  short_description: z.string().describe('What it does, in one line'),
  tta: z.number().int().min(0).describe('Most passes of test-time augmentation (--tta); 0: it has none'),
  mc_dropout: z.number().int().min(0).describe('Most passes of MC dropout (--mc); 0: it has none'),
  inputs: volumes
    .default({})
    .describe(
      'By any key, what one case consists of: one group of --inputs each. Without an entry the app is listed as one without inference',
    ),
  outputs: volumes.default({}).describe('By any key, what it writes for a case'),
  inputs_evaluations: z
    .record(z.string(), z.record(z.string(), volumes))
    .default({})
    .describe(
      'By name of an evaluation, then by its file (Evaluation.yml), what it reads. Without an entry the app is listed as one without evaluation',
    ),
  terminology: z
    .record(
      z.string(),
      z.object({
        name: z.string().describe('What the label means'),
        color: z.string().describe('As in HTML: #e0b088'),
      }),
    )
    .optional()
    .describe('By value of a label, its name and its colour'),
  models: z
    .array(z.string())
    .optional()
    .describe(
      'Checkpoints by file name, the first one first; without it, all files with weights in the directory',
    ),
  patch_size: z
    .array(z.number().int().min(0))
    .nullable()
    .default(null)
    .describe(
      'Usual patch size, in voxels along each axis, 0 for an axis that stays whole; null: it has none',
    ),
  parameters: z
    .unknown()
    .optional()
    .meta({
      description:
        'What --set NAME=VALUE changes: by name a value, or an object with what it may be. Other names and values are refused. Without it, nothing is',
      type: ['object', 'array'],
      additionalProperties: {
        properties: {
          type: {
            enum: ['number', 'integer', 'boolean', 'text'],
            description: 'By default that of the default',
          },
          default: { description: 'What it is without --set' },
          min: { type: 'number', description: 'Least number' },
          max: { type: 'number', description: 'Greatest number' },
          choices: { type: 'array', minItems: 1, description: 'All values that it may have' },
          description: { type: 'string', description: 'What it changes, for a person' },
        },
      },
    }),
  command: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe(
      'Program and first arguments, run without a shell. An element that names a file or a directory in this one is made absolute. Without it, the engine of the server runs the app',
    ),
  resident: z
    .boolean()
    .optional()
    .describe(
      'true: the command is started once and given job after job, so that it loads its model once. Needs `command`, and a program that does what docs/resident.md says',
    ),
});
export type AppManifest = z.infer<typeof appManifestSchema>;

/** What `GET /repo_apps/{id}` answers with for an app whose files can be read. */
export interface AvailableApp
  extends Omit<AppManifest, 'tta' | 'models' | 'command' | 'resident' | 'terminology'> {
  readonly app: string;
  readonly available: true;
  readonly checkpoints_name: readonly string[];
  readonly checkpoints_name_available: readonly string[];
  readonly maximum_tta: number;
  readonly has_capabilities: readonly [inference: boolean, evaluation: boolean, uncertainty: boolean];
  readonly finetunable: boolean;
  readonly terminology?: NonNullable<AppManifest['terminology']>;
  /** Where the app comes from, for an app of a repository. */
  readonly repository?: AppOrigin;
}

/** A repository that an app comes from. */
export interface AppOrigin {
  /** `owner/name`. */
  readonly name: string;
  readonly revision: string;
  /** The commit whose files are shown, and run. */
  readonly commit: string;
  /** When the hub was last asked, in ISO 8601; null for not since the server's start. */
  readonly checked_at: string | null;
  /** Why the hub cannot be asked now, or what is wrong with what it answers; null if nothing is. */
  readonly problem: string | null;
}

/** The same for an app whose files are broken. */
export interface UnavailableApp {
  readonly app: string;
  readonly available: false;
  readonly reason: string;
}

export type AppView = AvailableApp | UnavailableApp;

/** One app of a repository, after its repository was looked at. */
export interface RepositoryState {
  readonly app: string;
  readonly available: boolean;
  /** The commit in the cache; null for none. */
  readonly commit: string | null;
  readonly checked_at: string | null;
  /** Why it is not available, or was not brought up to date; null if nothing is wrong. */
  readonly problem: string | null;
}

/** What the routes of `/repo_apps_refresh` answer with. */
export interface RefreshView {
  /** Whether repositories are being looked at. */
  readonly refreshing: boolean;
  /** The apps that come from repositories. */
  readonly apps: readonly RepositoryState[];
}

/** What `GET /repo_apps_list` answers with. */
export interface AppList {
  readonly apps: readonly string[];
  /** Those that are loaded for jobs of whoever asks, an admin of all; only where there is one. */
  readonly loaded?: readonly string[] | undefined;
}
