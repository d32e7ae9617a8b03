import { z } from 'zod';

/** One volume that an app takes or gives. */
const volume = z.object({
  display_name: z.string(),
  volume_type: z.string(),
  required: z.boolean().default(true),
  default: z.string().nullable().default(null),
});
const volumes = z.record(z.string(), volume);

/** `app.json` of an app directory (interface.md, An app). Unknown keys are left alone. */
export const appManifestSchema = z.object({
  display_name: z.string(),
  description: z.string(),
  short_description: z.string(),
  /** Greatest number of TTA passes. */
  tta: z.number().int().min(0),
  /** Greatest number of MC dropout passes. */
  mc_dropout: z.number().int().min(0),
  inputs: volumes.default({}),
  outputs: volumes.default({}),
  /** By display name, then by evaluation file. */
  inputs_evaluations: z.record(z.string(), z.record(z.string(), volumes)).default({}),
  terminology: z.record(z.string(), z.object({ name: z.string(), color: z.string() })).optional(),
  /** Checkpoints by file name. */
  models: z.array(z.string()).optional(),
  /** Voxels along each axis. */
  patch_size: z.array(z.number().int().min(0)).nullable().default(null),
  /** Program and arguments; an element that names a file of the app's directory is made absolute. */
  command: z.array(z.string().min(1)).min(1).optional(),
});
export type AppManifest = z.infer<typeof appManifestSchema>;

/** What `GET /repo_apps/{id}` answers with for an app whose files can be read. */
export interface AvailableApp extends Omit<AppManifest, 'tta' | 'models' | 'command' | 'terminology'> {
  readonly app: string;
  readonly available: true;
  readonly checkpoints_name: readonly string[];
  readonly checkpoints_name_available: readonly string[];
  readonly maximum_tta: number;
  readonly has_capabilities: readonly [inference: boolean, evaluation: boolean, uncertainty: boolean];
  readonly finetunable: boolean;
  readonly terminology?: NonNullable<AppManifest['terminology']>;
}

/** The same for an app whose files are broken. */
export interface UnavailableApp {
  readonly app: string;
  readonly available: false;
  readonly reason: string;
}

export type AppView = AvailableApp | UnavailableApp;

/** What `GET /repo_apps_list` answers with. */
export interface AppList {
  readonly apps: readonly string[];
}
