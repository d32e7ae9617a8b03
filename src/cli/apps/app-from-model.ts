import { constants, copyFileSync, existsSync, linkSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { checkIsInside, type ModelApp, type ModelKind, type ModelSource } from './model-app.js';
import { monaiBundleApp } from './monai-bundle-app.js';
import { type AppFiles, type NewApp, residentHelpers, schemaName, writeApp } from './new-app.js';
import { nnunetApp } from './nnunet-app.js';
import { totalsegmentatorApp } from './totalsegmentator-app.js';

/** How each kind of model is read. The source is never changed. */
const readers: Readonly<Record<ModelKind, (source: ModelSource) => ModelApp>> = {
  nnunet: nnunetApp,
  'monai-bundle': monaiBundleApp,
  totalsegmentator: totalsegmentatorApp,
};

export interface ModelRequest extends ModelSource, Pick<NewApp, 'directory' | 'name'> {
  readonly kind: ModelKind;
  /** Whether weights are copied where they could be linked. */
  readonly copy: boolean;
  /** Whether the app gets its own Python environment. */
  readonly venv: boolean;
}

/** Hard-links a file or, where that is impossible, copies it. @returns whether it was linked */
function linkOrCopy(source: string, target: string, isCopy: boolean): boolean {
  if (!isCopy) {
    try {
      linkSync(source, target);
      return true;
    } catch {
      // The target is on another file system, or on one without hard links.
    }
  }
  copyFileSync(source, target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  return false;
}

const readmeOf = (name: string, python: string, about: string): string => `# ${name}

${about}
\`${python}\` runs it, and needs what is in \`requirements.txt\`. For another environment change the first word of \`command\` in \`app.json\`.

    remote-app check . --time-limit 10m     # is everything there?
    remote-app serve --apps .
`;

/** The content of a template; several kinds may share it. */
function templateOf(root: string, kind: ModelKind, file: string): Buffer {
  const [own, shared] = [kind, 'shared'].map((folder) => path.join(root, 'templates', 'from', folder, file));
  return readFileSync(own && existsSync(own) ? own : (shared ?? ''));
}

/**
 * Writes an app that serves a trained network.
 * @throws UsageError for a source that cannot be served; WriteError
 */
export async function writeAppFromModel(request: ModelRequest): Promise<NewApp> {
  const { kind, root, directory, name } = request;
  const app = readers[kind](request);
  const folder = request.source ?? app.source ?? '';
  const inside = (files: Readonly<Record<string, string>>) =>
    Object.entries(files).map(([file, of]) => [file, checkIsInside(of, folder)] as const);
  const [weights, copies] = [inside(app.weights), inside(app.copies)];
  const helper = residentHelpers.python ?? '';
  const python = request.venv ? 'venv/bin/python' : 'python3';
  const content = (...parts: readonly string[]) => readFileSync(path.join(root, ...parts));
  const texts: AppFiles = {
    ...Object.fromEntries(app.templates.map((file) => [file, templateOf(root, kind, file)])),
    ...app.texts,
    [helper]: content('templates', 'resident', 'python', helper),
    [schemaName]: content('docs', schemaName),
    'README.md': readmeOf(name, python, app.about),
    ...Object.fromEntries(copies.map(([file, of]) => [file, readFileSync(of)])),
  };
  const manifest = { ...app.manifest, command: [python, 'main.py'] };
  let areLinked = true;
  const files = await writeApp(request, manifest, texts, Object.keys(app.weights), () => {
    for (const [file, of] of weights)
      areLinked = linkOrCopy(of, path.join(directory, file), request.copy) && areLinked;
  });
  const { source, missing = [], notes } = app;
  const state = missing.length > 0 ? 'missing' : areLinked ? 'linked' : 'copied';
  const model = { kind, source, weights: state, missing, notes } as const;
  return { directory, language: 'python', resident: true, name, files, model };
}
