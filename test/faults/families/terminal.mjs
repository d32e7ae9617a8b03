/** An app, a file name or a strange server cannot affect a terminal, the log or a reader of the log. */
import { spawnSync } from 'node:child_process';
import { file } from '../../support/form.mjs';
import { times } from '../context.mjs';
import { ended, logOf, request, steps, submit } from '../support/api.mjs';
import { apps, Server } from '../support/server.mjs';
import { forgedFields } from './terminal/forged-fields.mjs';
import { hostileLines, splitters } from './terminal/lines.mjs';
import { onTerminal } from './terminal/on-terminal.mjs';
import { strangeTexts } from './terminal/strange-texts.mjs';

const hasPython = () => spawnSync('python3', ['--version']).status === 0;

/** However a client splits the stream: one terminal marker, and that is its last line. */
function checkMarkers(context, stream, what) {
  const fooled = [];
  for (const [name, lines] of splitters(stream)) {
    const markers = lines.filter((line) => /^data: ?(__DONE__|__ERROR__)/.test(line));
    const last = lines.findLast((line) => line.trim() !== '');
    context.count('streams split');
    const isForged = lines.some((line) => line.startsWith('data: [remote-app] FORGED'));
    if (markers.length !== 1 || last !== markers[0] || isForged) fooled.push(name);
  }
  const [first] = fooled;
  context.check(
    first === undefined,
    `The log of an app that prints ${what} has a forged line for clients that split by ${fooled.join(', ')}`,
  );
}

const echo = async (server, content, form = {}) => {
  const id = await submit(server, 'rogue', 'infer', {
    inputs: file('scan.txt', content),
    options: steps({ do: 'echo' }),
    ...form,
  });
  await ended(server, id);
  return id;
};

async function logs(context, server) {
  for (const [what, content] of hostileLines(context.random, times(context.rounds, 11))) {
    await context.attempt(`The log of an app that prints ${what}`, async () => {
      const id = await echo(server, content);
      const query = context.random.pick(['', '?since=0']);
      const { bytes } = await request(server, `/jobs/${id}/logs${query}`);
      checkMarkers(context, bytes, what);
    });
  }
}

async function fields(context, server) {
  for (const form of forgedFields(context.random)) {
    const id = await echo(server, 'quiet\n', form).catch((cause) => {
      // It may be refused as well, if in one line.
      if (!/^Refused with 4/.test(cause.message)) throw cause;
      return null;
    });
    context.count('fields with line ends in their names');
    if (id === null) continue;
    const forged = (await logOf(server, id)).filter((line) => /^\[remote-app\] FORGED/.test(line));
    context.check(
      forged.length === 0,
      `The name ${JSON.stringify(Object.keys(form)[0])} of a field forges the log line '${forged[0]}'`,
    );
    const { bytes } = await request(server, `/jobs/${id}/logs`);
    checkMarkers(context, bytes, 'nothing, sent with a field of a forged name,');
  }
}

export async function run(context) {
  if (!hasPython()) {
    context.note('There is no python3 here: no terminal was made, and no log split as Python does');
    return;
  }
  const server = await new Server(context, { apps: [apps.rogue], flags: ['--max-jobs', '100'] }).start();
  try {
    await context.attempt('Logs', () => logs(context, server));
    await context.attempt('Names of fields', () => fields(context, server));
    await onTerminal(context, server);
  } finally {
    await server.close();
  }
  await context.attempt('Texts of a strange server', () => strangeTexts(context));
}
