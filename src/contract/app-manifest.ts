import type { AppResources, Observed } from './resources.js';

/** What an app reads or writes, as `app.json` declares it. */
export interface AppVolume {
  readonly display_name: string;
  readonly volume_type: string;
  readonly required: boolean;
  readonly default: string | null;
  /** The unit of its values, such as `HU`. */
  readonly unit?: string | undefined;
}
type Volumes = Record<string, AppVolume>;

/** An app's description of a label. */
export interface AppLabel {
  readonly name: string;
  readonly color: string;
  /** The SNOMED CT code of the labelled structure. */
  readonly snomed?: { readonly code: string; readonly meaning: string } | undefined;
  /** All values that belong to the label, for overlapping regions; by default only its own. */
  readonly values?: readonly number[] | undefined;
}

/** What to cite in a work that uses an app. */
export interface AppReference {
  readonly text: string;
  /** Without the address: `10.1038/s41592-020-01008-z`. */
  readonly doi?: string | undefined;
  /** Licence of the weights. */
  readonly licence?: string | undefined;
}

/** A reference on one line, as in a list of references. */
export const referenceText = ({ text, doi, licence }: AppReference): string =>
  [text, doi && `https://doi.org/${doi}`, licence && `(weights: ${licence})`].filter(Boolean).join(' ');

/** `app.json` of an app directory (docs/apps.md); `manifest-schema.ts` of the server says what each key means. */
export interface AppManifest {
  display_name: string;
  description: string;
  short_description: string;
  tta: number;
  mc_dropout: number;
  inputs: Volumes;
  outputs: Volumes;
  inputs_evaluations: Record<string, Record<string, Volumes>>;
  terminology?: Record<string, AppLabel> | undefined;
  citation?: AppReference[] | undefined;
  models?: string[] | undefined;
  patch_size: number[] | null;
  parameters?: unknown;
  resources?: AppResources | undefined;
  /** Whether a job that runs out of memory is run again with its devices to itself. */
  retry_alone?: boolean | undefined;
  command?: string[] | undefined;
  resident?: boolean | undefined;
  shared?: boolean | undefined;
}

/** The answer of `GET /repo_apps/{id}` for an app whose files can be read. */
export interface AvailableApp
  extends Omit<AppManifest, 'tta' | 'models' | 'command' | 'resident' | 'shared' | 'terminology'> {
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
  /** The resources that jobs used on this server. */
  readonly observed?: readonly Observed[];
  /**
   * Changes with the app's files, and with nothing else: `sha256:` and a hash of their names and contents, or the commit of a
   * repository. Null while it is being computed, so a client that needs it asks again; absent for an app with too many files.
   */
  readonly version?: string | null;
}

/** A repository that an app comes from. */
export interface AppOrigin {
  /** `owner/name`. */
  readonly name: string;
  readonly revision: string;
  /** The commit whose files are shown, and run. */
  readonly commit: string;
  /** When the hub was last asked (ISO 8601); null if never since the server started. */
  readonly checked_at: string | null;
  /** Why the hub cannot be asked now, or what is wrong with its answer; null if there is no problem. */
  readonly problem: string | null;
}

/** The answer of `GET /repo_apps/{id}` for an app whose files are broken. */
export interface UnavailableApp {
  readonly app: string;
  readonly available: false;
  readonly reason: string;
}

export type AppView = AvailableApp | UnavailableApp;

/** An app from a repository, after its repository was checked. */
export interface RepositoryState {
  readonly app: string;
  readonly available: boolean;
  /** The commit in the cache; null for none. */
  readonly commit: string | null;
  readonly checked_at: string | null;
  /** Why the app is unavailable or outdated; null if there is no problem. */
  readonly problem: string | null;
}

/** The answer of the `/repo_apps_refresh` routes. */
export interface RefreshView {
  /** Whether repositories are being checked. */
  readonly refreshing: boolean;
  /** The apps that come from repositories. */
  readonly apps: readonly RepositoryState[];
}

/** The answer of `GET /repo_apps_list`. */
export interface AppList {
  readonly apps: readonly string[];
  /** The apps that are loaded for the sender's jobs, or for any job if the sender is an admin; absent if there are none. */
  readonly loaded?: readonly string[] | undefined;
}
