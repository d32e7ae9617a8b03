import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { writing } from '../../client/write-error.js';
import { quotePath } from '../../contract/quote.js';
import { shellWord } from '../../contract/shell-word.js';
import { errorCode, faultWithoutPath } from '../../files/error-code.js';
import { makeDirectory } from '../../files/make-directory.js';
import { type Language, languages } from './app-languages.js';

export interface NewApp {
  /** Absolute. */
  readonly directory: string;
  readonly language: Language;
  readonly name: string;
  /** What was written, relative to the directory. */
  readonly files: readonly string[];
}

/** The schema of `app.json`, in the package and in a new app. */
const schemaName = 'app.schema.json';

const manifestOf = (name: string, language: Language) => ({
  $schema: `./${schemaName}`,
  display_name: name,
  short_description: 'Copies each volume',
  description: 'Copies each volume that it is given. Say here what your model does, and with what limits.',
  command: languages[language],
  tta: 0,
  mc_dropout: 0,
  inputs: { Volume_0: { display_name: 'Volume', volume_type: 'VOLUME', required: true } },
  outputs: { Result: { display_name: 'Result', volume_type: 'VOLUME', required: true } },
});

/** How a new app is tried, in words that can be typed. */
export function firstSteps({ directory, language }: NewApp, bin: string) {
  const [program, file] = languages[language];
  const here = shellWord(path.relative('', directory) || '.');
  const local = [program, shellWord(path.join(path.relative('', directory), file)), 'infer', here];
  return {
    alone: `${local.join(' ')} --output Output --inputs "$PWD/VOLUME"`,
    serve: `${bin} serve --apps ${here}`,
    infer: `${bin} infer VOLUME`,
  };
}

const readme = (app: NewApp): string => {
  const [program, file] = languages[app.language];
  return `# ${app.name}

An app for remote-app. Your model goes into \`predict\` of \`${file}\`; \`app.json\` says what the app is.

    ${program} ${file} infer . --output Output --inputs "$PWD/VOLUME"     # without a server
    remote-app serve --apps .                                     # with one; then, in another terminal:
    remote-app infer VOLUME
`;
};

/** @throws UsageError for what is not an empty directory, and cannot become one */
function checkIsFree(directory: string): void {
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

/**
 * Writes an app that runs as it is.
 * @param target made if it is not there; if it is, it must be empty
 * @param name for a person; by default the name of the directory
 * @param root the directory of this package, which has the programs and the schema
 * @throws UsageError for a directory that has something in it; WriteError
 */
export async function writeNewApp(
  target: string,
  language: Language,
  name: string | undefined,
  root: string,
): Promise<NewApp> {
  const directory = path.resolve(target);
  checkIsFree(directory);
  const [, program] = languages[language];
  const files = ['app.json', program, 'README.md', schemaName];
  const app: NewApp = { directory, language, name: name || path.basename(directory) || 'app', files };
  const place = (file: string) => path.join(directory, file);
  await writing(directory, 'run the command again', async () => {
    makeDirectory(directory);
    // Not copied as files: the package may be read-only.
    writeFileSync(place(schemaName), readFileSync(path.join(root, 'docs', schemaName)));
    writeFileSync(place(program), readFileSync(path.join(root, 'templates', language, program)));
    writeFileSync(place('README.md'), readme(app));
    // Last: it makes the directory an app.
    writeFileSync(place('app.json'), `${JSON.stringify(manifestOf(app.name, language), null, 2)}\n`);
  });
  return app;
}
