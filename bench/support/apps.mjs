import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';

async function app(workshop, name, command, program, source) {
  const directory = path.join(await workshop.directory('apps'), name);
  await mkdir(directory);
  const manifest = {
    display_name: name,
    short_description: 'Measured',
    description: 'Measured',
    tta: 0,
    mc_dropout: 0,
    command,
  };
  await writeFile(path.join(directory, 'app.json'), JSON.stringify(manifest));
  await writeFile(path.join(directory, program), source);
  return directory;
}

/** Puts the operation's directory of results into $output, and its first input file into $input. */
const prelude = `previous=
for argument; do
  case $previous in --output) output=$argument ;; --inputs) input=$argument ;; esac
  previous=$argument
done
`;

/** An app that is a shell script, which has $output and $input, and what \`serve\` has in its environment. */
export const shellApp = (workshop, name, script) =>
  app(workshop, name, ['sh', 'main.sh'], 'main.sh', `${prelude}${script}\n`);

/** An app that is a Node program. */
export const nodeApp = (workshop, name, source) =>
  app(workshop, name, ['node', 'main.mjs'], 'main.mjs', source);
