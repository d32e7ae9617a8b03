import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { UsageError, withWriteErrors } from '../../client/errors.js';
import { quotePath } from '../../contract/index.js';
import { errorCode, faultWithoutPath, makeDirectory } from '../../files/index.js';
import type { ModelKind } from './model-app.js';

/** The languages of new apps, each with the command that runs the app; its last word is the program's file. */
export const languages = {
  python: ['python3', 'main.py'],
  shell: ['sh', 'main.sh'],
  javascript: ['node', 'main.mjs'],
} as const satisfies Record<string, readonly [string, string]>;
export type Language = keyof typeof languages;

export const languageNames = Object.keys(languages) as readonly Language[];

/** The languages that support resident apps, with the helper file that talks to the server. */
export const residentHelpers: Readonly<Partial<Record<Language, string>>> = {
  python: 'resident.py',
  javascript: 'resident.mjs',
};

export interface NewApp {
  /** Absolute. */
  readonly directory: string;
  readonly language: Language;
  /** Whether it is started once for many jobs. */
  readonly resident: boolean;
  readonly name: string;
  /** What was written, relative to the directory. */
  readonly files: readonly string[];
  /** The network that the app runs; absent for an app that copies its input. */
  readonly model?: AppModel;
}

export interface AppModel {
  readonly kind: ModelKind;
  /** Absolute; null for a network whose weights were not on this machine. */
  readonly source: string | null;
  /**
   * How the weights got into the app. A hard link is the same file under another name, so a sandbox treats it as the app's own.
   */
  readonly weights: 'linked' | 'copied' | 'fetched' | 'missing';
  /** Weights that were not found. */
  readonly missing: readonly string[];
  /** Sentences about parts of the source that were left out. */
  readonly notes: readonly string[];
}

/** The schema of `app.json`, in the package and in a new app. */
export const schemaName = 'app.schema.json';

const manifestOf = ({ language, resident }: NewAppRequest) => ({
  short_description: 'Copies each file',
  description: 'Copies each file that it is given. Say here what your model does, and with what limits.',
  command: languages[language],
  ...(resident ? { resident } : {}),
  tta: 0,
  mc_dropout: 0,
  parameters: { threshold: { default: 0.5, min: 0, max: 1, description: 'An example: it is only printed' } },
  // Any file is accepted, so that a first job can use whatever is at hand.
  inputs: { Volume_0: { display_name: 'File', volume_type: 'FILE', required: true } },
  outputs: { Result: { display_name: 'Result', volume_type: 'FILE', required: true } },
});

const readme = (app: NewAppRequest): string => {
  const [program, file] = languages[app.language];
  const places = app.resident ? '`load` and `predict`' : '`predict`';
  return `# ${app.name}

An app for remote-app. Your model goes into ${places} of \`${file}\`; \`app.json\` says what the app is.
The app takes any file now. For a model that needs scans, write \`VOLUME\` in place of \`FILE\` in \`app.json\`: then nobody can send it a
text or a picture.

    ${program} ${file} infer . --output Output --inputs "$PWD/FILE"     # without a server
    remote-app serve --apps .                                   # with one; then, in another terminal:
    remote-app infer FILE
${app.resident ? aboutResident(app.language) : ''}`;
};

/** The README's section about resident apps. */
const aboutResident = (language: Language): string => `
The server starts \`${languages[language][1]}\` once: \`load\` loads the model, \`run\` runs one job after the other.
\`${residentHelpers[language]}\` speaks with the server. Without \`"resident": true\` in \`app.json\` each job is a start of its own.
`;

/** @throws UsageError unless the directory is empty or can be created */
export function checkIsFree(directory: string): void {
  let names: string[];
  try {
    names = readdirSync(directory);
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return;
    throw new UsageError(`${quotePath(directory)} cannot hold an app: ${faultWithoutPath(cause)}`, { cause });
  }
  if (names.length > 0) {
    throw new UsageError(`${quotePath(directory)} is not empty; name a new directory, or an empty one`);
  }
}

/** The templates for a new app, and their directory. @throws UsageError for a language without resident apps */
function templatesOf({ language, resident }: NewAppRequest) {
  const [, program] = languages[language];
  if (!resident) return { folder: path.join('templates', language), programs: [program] };
  const helper = residentHelpers[language];
  if (helper === undefined) {
    const others = Object.keys(residentHelpers).join(' or --language ');
    throw new UsageError(
      `There is no resident app in ${language}: a resident app keeps its model in memory from job to job. Take --language ${others}`,
    );
  }
  return { folder: path.join('templates', 'resident', language), programs: [program, helper] };
}

/** The properties of a new app, before its files are written. */
export type NewAppRequest = Omit<NewApp, 'files' | 'model'>;

/** Files of an app, by their paths in its directory. */
export type AppFiles = Readonly<Record<string, string | Buffer>>;

/**
 * Writes an app into a directory that is empty. What is written of it is removed if this fails, so that it can be tried again.
 * @param others further files, which `writeOthers` writes
 * @returns the paths of all files
 * @throws WriteError
 */
export async function writeApp(
  { directory, name }: Pick<NewApp, 'directory' | 'name'>,
  manifest: Readonly<Record<string, unknown>>,
  texts: AppFiles,
  others: readonly string[] = [],
  writeOthers: () => void = () => {},
): Promise<string[]> {
  const described = { $schema: `./${schemaName}`, display_name: name, ...manifest };
  const files = ['app.json', ...Object.keys(texts), ...others];
  const place = (file: string) => path.join(directory, file);
  await withWriteErrors(directory, 'run the command again', async () => {
    try {
      for (const file of files) makeDirectory(path.dirname(place(file)));
      writeOthers();
      for (const [file, text] of Object.entries(texts)) writeFileSync(place(file), text);
      // Written last, because this file makes the directory an app.
      writeFileSync(place('app.json'), `${JSON.stringify(described, null, 2)}\n`);
    } catch (cause) {
      const written = new Set(files.map((file) => file.split('/', 1)[0] ?? file));
      for (const each of written) rmSync(place(each), { recursive: true, force: true });
      throw cause;
    }
  });
  return files;
}

/**
 * Writes an app that runs without any changes.
 * @param root the directory of this package, with the templates and the schema
 * @throws UsageError for a language without resident apps; WriteError
 */
export async function writeNewApp(request: NewAppRequest, root: string): Promise<NewApp> {
  const { folder, programs } = templatesOf(request);
  // Written instead of copied, because the package's files may be read-only.
  const texts = {
    ...Object.fromEntries(programs.map((file) => [file, readFileSync(path.join(root, folder, file))])),
    'README.md': readme(request),
    [schemaName]: readFileSync(path.join(root, 'docs', schemaName)),
  };
  return { ...request, files: await writeApp(request, manifestOf(request), texts) };
}
