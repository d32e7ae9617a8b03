import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';

async function app(workshop, name, command, program, source, more = {}) {
  const directory = path.join(await workshop.directory('apps'), name);
  await mkdir(directory);
  const manifest = {
    display_name: name,
    short_description: 'Measured',
    description: 'Measured',
    tta: 0,
    mc_dropout: 0,
    command,
    ...more,
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
export const shellApp = (workshop, name, script, more = {}) =>
  app(workshop, name, ['sh', 'main.sh'], 'main.sh', `${prelude}${script}\n`, more);

/** An app that is a Node program. */
export const nodeApp = (workshop, name, source) =>
  app(workshop, name, ['node', 'main.mjs'], 'main.mjs', source);

/**
 * A Node program that stays loaded.
 * @param {object} times seconds: loading, working; the line that each job prints, if any; and `after`: JavaScript that
 *   ends each job, for which `call` is what the server wants and `startedAt` when it came
 */
export const residentApp = (workshop, name, { loading, working, line = '', after = '' }) =>
  app(
    workshop,
    name,
    ['node', 'main.mjs'],
    'main.mjs',
    `import fs from 'node:fs';
import { createInterface } from 'node:readline';
const seconds = (count) => count > 0 && new Promise((resolve) => setTimeout(resolve, count * 1000));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const name = process.env.REMOTE_APP_ANSWERS;
const answers = /^\\d+$/.test(name) ? Number(name) : fs.openSync(name, 'w');
const say = (answer) => fs.writeSync(answers, JSON.stringify(answer) + '\\n');
await seconds(${loading});
say({ ready: true });
for (let next = await lines.next(); !next.done; next = await lines.next()) {
  const startedAt = Date.now();
  const call = JSON.parse(next.value);
  const line = ${JSON.stringify(line)};
  if (line) console.log(line);
  await seconds(${working});
  ${after}
  say({ job: call.job, exit_code: 0 });
}
`,
    { resident: true },
  );
