/** What an app reads or writes, as `app.json` declares it. */
export interface AppVolume {
  readonly display_name: string;
  readonly volume_type: string;
  readonly required: boolean;
  readonly default: string | null;
}
type Volumes = Record<string, AppVolume>;

/** `app.json` of an app directory (interface.md, An app); `manifest-schema.ts` of the server says what each key means. */
export interface AppManifest {
  display_name: string;
  description: string;
  short_description: string;
  tta: number;
  mc_dropout: number;
  inputs: Volumes;
  outputs: Volumes;
  inputs_evaluations: Record<string, Record<string, Volumes>>;
  terminology?: Record<string, { name: string; color: string }> | undefined;
  models?: string[] | undefined;
  patch_size: number[] | null;
  parameters?: unknown;
  command?: string[] | undefined;
  resident?: boolean | undefined;
}

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
