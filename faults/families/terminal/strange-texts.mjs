import { once } from 'node:events';
import { createServer } from 'node:http';
import { remoteAppOnTerminal } from '../../support/client.mjs';
import { allSequences, intruders } from './sequences.mjs';

const commands = (id) => [
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

/** A server whose names, errors and lists are made to be obeyed by a terminal. */
export async function strangeTexts(context) {
  const id = 'abcdef012345';
  let answers = {};
  let isRefusing = false;
  let current = '';
  const server = createServer((request, response) => {
    const [target] = request.url.split('?');
    const known = isRefusing ? undefined : answers[target];
    const status = known === undefined ? 400 : target.endsWith('/result') ? 500 : 200;
    if (target.endsWith('/logs') && !isRefusing) {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      response.end(`data: ${current}\n\ndata: __ERROR__ ${current}\n\n`);
      return;
    }
    response.writeHead(status, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify(known ?? { detail: current }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${server.address().port}`;
  try {
    for (const words of commands(id)) {
      current = `before ${allSequences(context.random, ' ')} behind`;
      answers = answersWith(current, id);
      for (const refuses of [false, true]) {
        isRefusing = refuses;
        const { output } = await remoteAppOnTerminal(context, words, { url });
        context.count('terminals written to');
        const found = intruders(output);
        const where = isRefusing ? 'an error' : 'an answer';
        context.check(
          found.length === 0,
          `What terminals obey, in ${where} of a server, passes 'remote-app ${words[0]}' to the terminal: ${JSON.stringify(found[0])}`,
        );
      }
    }
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
