import { once } from 'node:events';
import { createServer } from 'node:http';
import { times } from '../../context.mjs';
import { remoteAppOnTerminal } from '../../support/client.mjs';
import { allSequences, intruders } from './sequences.mjs';

const id = 'abcdef012345';
const commands = [
  ['health'],
  ['gpus'],
  ['apps'],
  ['apps', 'app'],
  ['jobs'],
  ['status', id],
  ['kill', id],
  ['result', id],
  ['logs', id],
];

/** Answers in which every text is hostile. */
function answersWith(text, id) {
  const job = { job_id: id, status: 'running', error: text, app: text, operation: text, waiting_for: text };
  const times = { created_at: text, started_at: null, finished_at: null, expires_at: null };
  const view = { ...job, ...times, assigned_gpus: [], queue_position: null };
  const app = { app: text, available: true, display_name: text, description: text, short_description: text };
  const lists = {
    checkpoints_name: [text],
    checkpoints_name_available: [text],
    has_capabilities: {},
    inputs: {},
    outputs: {},
  };
  return {
    '/jobs': { jobs: [{ ...view, job_id: `${text}${id}` }, view] },
    '/available_devices': { devices_index: [0], devices_name: [text] },
    '/ram': { used_gb: 1, total_gb: 2 },
    '/repo_apps_list': { apps: [text, 'app'] },
    '/repo_apps/app': {
      ...app,
      ...lists,
      maximum_tta: 0,
      mc_dropout: 0,
      patch_size: null,
      finetunable: false,
    },
    [`/jobs/${id}`]: view,
    [`/jobs/${id}/kill`]: { job_id: id, status: text, message: text },
    [`/jobs/${id}/result`]: { job_id: id, status: 'error', error: text },
  };
}

/** A server that answers everything with one text, or refuses everything with it. */
async function serve(text, isRefusing) {
  const answers = isRefusing ? {} : answersWith(text, id);
  const server = createServer((request, response) => {
    const [target] = request.url.split('?');
    if (target.endsWith('/logs') && !isRefusing) {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      response.end(`data: ${text}\n\ndata: __ERROR__ ${text}\n\n`);
      return;
    }
    const known = answers[target];
    const status = known === undefined ? 400 : target.endsWith('/result') ? 500 : 200;
    response.writeHead(status, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify(known ?? { detail: text }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

/** A server whose names, errors and lists contain control sequences. */
export async function strangeTexts(context) {
  const { random, rounds } = context;
  const refused = random.shuffle(commands).slice(0, times(rounds, 3));
  const cases = [...commands.map((words) => [words, false]), ...refused.map((words) => [words, true])];
  const inTurn = async () => {
    for (let next = cases.shift(); next !== undefined; next = cases.shift()) await meet(context, ...next);
  };
  await Promise.all([inTurn(), inTurn(), inTurn()]);
}

async function meet(context, words, isRefusing) {
  const server = await serve(`before ${allSequences(context.random, ' ')} behind`, isRefusing);
  try {
    const url = `http://127.0.0.1:${server.address().port}`;
    const { output } = await remoteAppOnTerminal(context, words, { url });
    context.count('terminals written to');
    const found = intruders(output);
    const where = isRefusing ? 'an error' : 'an answer';
    context.check(
      found.length === 0,
      `What terminals obey, in ${where} of a server, passes 'remote-app ${words[0]}' to the terminal: ${JSON.stringify(found[0])}`,
    );
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
