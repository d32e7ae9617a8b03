import { createHash } from 'node:crypto';
import { thousandTokens } from '../support/access.mjs';
import { shellApp } from '../support/apps.mjs';
import { send } from '../support/http.mjs';
import { median } from '../support/interleave.mjs';
import { atMost } from '../support/reach.mjs';
import { Server } from '../support/server.mjs';

/** Names of each kind. */
const count = 1000;

const nameOf = (content) => createHash('sha256').update(content).digest('hex');

/** Sends one request to its end; resolves with its status and its milliseconds. */
async function timed(url, options) {
  const startedAt = performance.now();
  const answer = await send(url, options);
  await answer.resume().toArray();
  return { status: answer.statusCode, ms: performance.now() - startedAt };
}

const tus = (token) => ({ Authorization: `Bearer ${token}`, 'Tus-Resumable': '1.0.0' });

/** Begins an upload, and sends its first bytes. */
const begin = (server, token, content, bytes) =>
  timed(`${server.url}/uploads`, {
    method: 'POST',
    headers: {
      ...tus(token),
      'Upload-Length': Buffer.byteLength(content),
      'Upload-Metadata': `sha256 ${Buffer.from(nameOf(content)).toString('base64')}`,
      'Content-Type': 'application/offset+octet-stream',
      'Content-Length': Buffer.byteLength(bytes),
    },
    body: bytes,
  });

/** What can be asked with the name of a content, and how a server answers whoever has not sent it. */
const asks = {
  head: {
    what: 'HEAD',
    status: 404,
    ask: (server, token, content) =>
      timed(`${server.url}/uploads/${nameOf(content)}`, { method: 'HEAD', headers: tus(token) }),
  },
  begin: {
    what: 'POST /uploads',
    status: 201,
    ask: (server, token, content) => begin(server, token, content, content),
  },
  submit: {
    what: 'a submission by reference',
    status: 409,
    ask: (server, token, content) => {
      const body = JSON.stringify({ cpu: 1, inputs: [{ upload: nameOf(content), name: 'ct.nii' }] });
      const headers = {
        Authorization: `Bearer ${token}`,
        'Content-Type': 'application/json',
        'Content-Length': body.length,
      };
      return timed(server.submitUrl('nothing'), { method: 'POST', headers, body });
    },
  },
};

/** How often a time of the first list is longer than one of the second: 0.5 where nobody could tell the lists apart. */
function areaUnderCurve(some, others) {
  const all = [...some.map((ms) => [ms, 1]), ...others.map((ms) => [ms, 0])].sort(([a], [b]) => a - b);
  const ranks = all.reduce((sum, [, isSome], at) => sum + isSome * (at + 1), 0);
  return (ranks - (some.length * (some.length + 1)) / 2) / (some.length * others.length);
}

/**
 * One user has sent contents, half of them whole, and has used them just now; another one asks for them, and for as many that nobody
 * has sent, in random order.
 */
async function measure({ workshop }, { ask, status: expected }) {
  const { token, another, flags } = await thousandTokens(workshop);
  const app = await shellApp(workshop, 'nothing', ':');
  const server = await Server.start(workshop, { apps: [app], token, flags });
  try {
    const contents = Array.from({ length: count }, (_, at) => `A content that a user has sent: ${at}`);
    for (const [at, content] of contents.entries())
      await begin(server, another, content, content.slice(0, at % 2 === 0 ? undefined : 10));
    const turns = [
      ...contents.map((content) => ({ content, isSent: true })),
      ...contents.map((content) => ({ content: content.replace('a user', 'nobody'), isSent: false })),
    ].map((turn) => ({ ...turn, at: Math.random() }));
    turns.sort((a, b) => a.at - b.at);
    // What the first requests take is not told by names.
    for (let round = 0; round < 100; round += 1) await ask(server, token, `Of nobody: ${round}`);
    const found = { true: [], false: [] };
    for (const { content, isSent } of turns) {
      const { status, ms } = await ask(server, token, content);
      if (status !== expected) throw new Error(`The server answered ${status}`);
      found[isSent].push(ms);
    }
    const area = areaUnderCurve(found.true, found.false);
    return {
      figure: Math.max(area, 1 - area),
      note: `${median(found.true).toFixed(3)} ms for what another user has sent, ${median(found.false).toFixed(3)} ms for what nobody has`,
    };
  } finally {
    await server.stop();
  }
}

export const rows = Object.entries(asks).map(([name, each]) => ({
  name: `whose-${name}`,
  what: `how well the times of ${each.what} tell what another user has sent; 0.5 is chance`,
  yardstick: '-',
  unit: 'AUC',
  reach: atMost(0.55, 'AUC'),
  measure: (bench) => measure(bench, each),
}));
