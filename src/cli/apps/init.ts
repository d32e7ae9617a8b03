import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { shellWord } from '../../contract/index.js';
import { type CommandIo, openReporter } from '../terminal/index.js';
import type { ModelKind } from './model-app.js';
import { type Language, languages, type NewApp, writeNewApp } from './new-app.js';

interface InitRequest {
  readonly directory: string;
  readonly source?: string | undefined;
  readonly language: Language;
  readonly resident: boolean;
  readonly name?: string | undefined;
  readonly from?: ModelKind | undefined;
  readonly copy?: boolean | undefined;
  readonly venv?: boolean | undefined;
}

/**
 * Writes an app: one that copies its input, or one of a trained network.
 * @param root the directory of this package
 * @throws UsageError, WriteError
 */
export async function initApp(request: InitRequest, root: string, io: CommandIo): Promise<NewApp> {
  const { directory: target, source, from: kind, name, language } = request;
  if (kind === undefined) {
    if (source !== undefined)
      throw new UsageError(
        `Say with --from what ${shellWord(source)} is: --from nnunet ${shellWord(source)}`,
      );
    return writeNewApp({ ...request, target, name }, root);
  }
  if (source === undefined)
    throw new UsageError(
      `Name the folder of the network after --from: init ${shellWord(target)} --from ${kind} FOLDER`,
    );
  if (language !== 'python') throw new UsageError(`An app --from ${kind} is in Python: leave --language out`);
  const { copy = false, venv = false } = request;
  // Other commands use this module too, and read no models.
  const { writeAppFromModel } = await import('./app-from-model.js');
  const app = await writeAppFromModel({ target, kind, source, copy, venv, name }, root);
  if (venv) {
    const { makeEnvironment } = await import('./app-environment.js');
    const reporter = await openReporter(io, { stdoutIsTaken: true, all: false });
    try {
      await makeEnvironment(app.directory, io.env, reporter);
    } finally {
      reporter.close();
    }
  }
  return app;
}

const here = (directory: string): string => shellWord(path.relative('', directory) || '.');

/** What to do next with a new app, in lines. */
export function firstSteps(app: NewApp, hasEnvironment: boolean, bin: string): string[] {
  const { directory, files, model } = app;
  const wrote = `Wrote ${files.join(', ')} in ${directory}`;
  const serve = `${bin} serve --apps ${here(directory)}`;
  if (model) {
    const { weights, notes } = model;
    return [
      wrote,
      `The weights are ${weights}.`,
      ...notes.map((note) => `Note: ${note}`),
      hasEnvironment
        ? 'Its Python is venv/bin/python. It is served by:'
        : "Its Python is 'python3' of the PATH, which needs requirements.txt; init --venv makes one for this app. It is served by:",
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
    `Your model goes into ${places} of ${files[1]}. Until then the app copies what it is given:`,
    `  ${local.join(' ')} --output Output --inputs "$PWD/VOLUME"`,
    `  ${serve}          # then, in another terminal:`,
    `  ${bin} infer VOLUME`,
  ];
}
