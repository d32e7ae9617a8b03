import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { excerpt, shellWord } from '../../contract/index.js';
import { expandHome } from '../../files/index.js';
import { type CommandIo, openReporter } from '../terminal/index.js';
import { hasTasks, type ModelKind } from './model-app.js';
import { checkIsFree, type Language, languages, type NewApp, writeNewApp } from './new-app.js';

interface InitRequest {
  readonly directory: string;
  readonly source?: string | undefined;
  readonly language: Language;
  readonly resident: boolean;
  readonly name?: string | undefined;
  readonly from?: ModelKind | undefined;
  readonly task?: string | undefined;
  readonly weights?: string | undefined;
  readonly copy?: boolean | undefined;
  readonly venv?: boolean | undefined;
}

/** Checks the arguments and flags against the kind of network. @throws UsageError for one that this kind does not take */
function checkWords(kind: ModelKind, { source, language, task, weights }: InitRequest): void {
  if (language !== 'python') throw new UsageError(`An app --from ${kind} is in Python: leave --language out`);
  if (hasTasks(kind)) {
    if (source !== undefined)
      throw new UsageError(
        `--from ${kind} takes no ${shellWord(source)}: name a task with --task, or a folder of weights that you have with --weights`,
      );
    return;
  }
  if (task !== undefined || weights !== undefined)
    throw new UsageError(
      `${task === undefined ? '--weights' : '--task'} is for --from totalsegmentator: leave it out`,
    );
  if (source === undefined)
    throw new UsageError(
      `--from ${kind} takes two names, the new app and the folder of the network: init APP --from ${kind} FOLDER`,
    );
}

const absolute = (given: string | undefined): string | undefined =>
  given === undefined ? undefined : path.resolve(expandHome(given));

/**
 * Writes an app: one that copies its input, or one for a trained network.
 * @param root the directory of this package
 * @throws UsageError, WriteError
 */
export async function initApp(request: InitRequest, root: string, io: CommandIo): Promise<NewApp> {
  const { from: kind, language, resident, task, copy = false, venv = false } = request;
  const [source, weights] = [absolute(request.source), absolute(request.weights)];
  if (kind !== undefined) checkWords(kind, request);
  else if (request.source !== undefined)
    throw new UsageError(
      `Say with --from what ${shellWord(request.source)} is: --from nnunet ${shellWord(request.source)}`,
    );
  const directory = path.resolve(expandHome(request.directory));
  checkIsFree(directory);
  const name = request.name || path.basename(directory) || 'app';
  if (kind === undefined) return writeNewApp({ directory, language, resident, name }, root);
  // Imported here because other commands use this module too, and read no models.
  const { writeAppFromModel } = await import('./app-from-model.js');
  const environment = io.env;
  const app = await writeAppFromModel({
    ...{ directory, kind, source, task, weights, copy, venv, name, environment, root },
  });
  if (!venv) return app;
  const { makeEnvironment } = await import('./app-environment.js');
  using reporter = await openReporter(io, { stdoutIsTaken: true, all: false });
  const { model } = app;
  const fetches = model?.weights === 'missing';
  await makeEnvironment(app.directory, kind, fetches, environment, reporter);
  return model && fetches ? { ...app, model: { ...model, weights: 'fetched', missing: [] } } : app;
}

const here = (directory: string): string => shellWord(path.relative('', directory) || '.');

/** The next steps with a new app, as lines. */
export function firstSteps(app: NewApp, hasEnvironment: boolean, bin: string): string[] {
  const { directory, files, model } = app;
  const names = files.map((file) => (file.includes('/') ? `${file.split('/')[0]}/` : file));
  const wrote = `Wrote ${[...new Set(names)].join(', ')} in ${directory}`;
  const serve = `${bin} serve --apps ${here(directory)}`;
  if (model) {
    const { weights, missing, notes } = model;
    const python = `${hasEnvironment ? 'venv/bin/python' : 'python3'} main.py fetch`;
    return [
      wrote,
      weights === 'missing'
        ? `The weights ${excerpt(missing.join(', '), 500)} are missing: '${python}' in ${here(directory)} downloads them.`
        : `The weights are ${weights}.`,
      ...notes.map((note) => `Note: ${note}`),
      hasEnvironment
        ? 'Its Python is venv/bin/python. What to do next:'
        : "Its Python is 'python3' of the PATH, which needs requirements.txt; init --venv makes one for this app. What to do next:",
      `  ${bin} check ${here(directory)} --time-limit 10m`,
      `  ${serve}          # then, in another terminal:`,
      `  ${bin} infer SCAN`,
    ];
  }
  const [program, file] = languages[app.language];
  const local = [program, shellWord(path.join(path.relative('', directory), file)), 'infer', here(directory)];
  const places = app.resident ? "'load' and 'predict'" : "'predict'";
  return [
    wrote,
    `Your model goes into ${places} of ${files[1]}, and what it takes into app.json. Until then the app copies any file:`,
    `  ${local.join(' ')} --output Output --inputs "$PWD/FILE"`,
    `  ${serve}          # then, in another terminal:`,
    `  ${bin} infer FILE`,
  ];
}
