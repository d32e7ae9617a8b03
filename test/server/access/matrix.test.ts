import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RouteName, routeNames, routes } from '../../../src/contract/routes.js';
import { least, steps } from '../../support/form.js';
import { type FormValues, file, formOf } from '../../support/form.mjs';
import { sharedServer } from '../../support/server.js';
import { TestTokens } from '../../support/tokens.js';
import { sha256 } from '../../support/tus.js';
import { until } from '../../support/until.mjs';
import { zipOf } from '../../support/zip.mjs';

/** What each route answers to whoever has a valid token. A route of a job states what it answers about one's own. */
type Expected =
  /** A route that is about no job. */
  | { readonly user: number; readonly admin: number }
  /** A route about a job: of one's own that is done, that runs, and that is gone. What is another's is 404 in every case. */
  | { readonly done: number; readonly running: number }
  /** A route about an upload: of one's own. What is another's is 404, for admins too. */
  | { readonly own: number };

const same = (status: number): Expected => ({ user: status, admin: status });

/** Every route of the table. A new one has to be put in here: the compiler and the first test see to that. */
const expected: Readonly<Record<RouteName, Expected>> = {
  health: same(200),
  devices: same(200),
  ram: same(200),
  vram: same(200),
  limits: same(200),
  metrics: { user: 403, admin: 200 },
  apps: same(200),
  app: same(200),
  appConfig: same(200),
  refresh: same(200),
  refreshed: same(200),
  infer: same(200),
  evaluate: same(200),
  uncertainty: same(200),
  pipeline: same(200),
  fine_tune: same(200),
  uploadTerms: same(204),
  beginUpload: same(201),
  upload: { own: 200 },
  appendUpload: { own: 204 },
  removeUpload: { own: 204 },
  usage: same(200),
  jobs: same(200),
  job: { done: 200, running: 200 },
  log: { done: 200, running: 200 },
  logs: { done: 200, running: 200 },
  result: { done: 200, running: 202 },
  kill: { done: 200, running: 200 },
  remove: { done: 200, running: 409 },
  drain: { user: 403, admin: 200 },
  draining: { user: 403, admin: 200 },
  undrain: { user: 403, admin: 200 },
};

const tokens = new TestTokens();
for (const name of ['ana', 'bob', 'revoked']) tokens.create(name);
tokens.create('expired', { expires: new Date(Date.now() - 1000).toISOString() });
tokens.create('root', { role: 'admin' });
tokens.revoke('revoked');
afterAll(() => tokens[Symbol.asyncDispose]());

const server = sharedServer({
  gpus: 1,
  token: 'of-the-environment',
  flags: ['--metrics', '--tokens', tokens.file, '--cpu-slots', '64', '--max-jobs', '500', '--grace', '600'],
});
const [ana, bob] = [tokens.api(server, 'ana'), tokens.api(server, 'bob')] as const;

/** Nobody has it. */
const nobody = 'ffffffffffff';

/** Who has no business here, and what they are told. */
const strangers: readonly (readonly [string, () => string | null, RegExp])[] = [
  ['no token', () => null, /^Missing bearer token$/],
  ['a wrong token', () => 'wrong', /^Invalid token$/],
  ['a revoked token', () => tokens.of('revoked'), /^Invalid token$/],
  ['an expired token', () => tokens.of('expired'), /^Invalid token: it expired at /],
];
const admins: readonly (readonly [string, () => string])[] = [
  ['an admin', () => tokens.of('root')],
  ['the token of the environment', () => 'of-the-environment'],
];

const isOfJob = (name: RouteName): boolean => routes[name].path.includes('{id}');
const ofJobs = routeNames.filter(isOfJob);
const ofUploads = routeNames.filter((name) => routes[name].path.includes('{sha256}'));
const others = routeNames.filter((name) => !isOfJob(name) && !ofUploads.includes(name));

/** An upload of ana's that has begun, and one that nobody has. */
const [upload, noUpload] = ['of ana', 'of nobody'].map(sha256) as [string, string];
/** What tus asks for. */
const ofTus = {
  'Tus-Resumable': '1.0.0',
  'Upload-Length': '6',
  'Upload-Metadata': `sha256 ${Buffer.from(upload).toString('base64')}`,
  'Upload-Offset': '0',
  'Content-Type': 'application/offset+octet-stream',
};

const onCpu = { cpu: '1' };
const forms: Readonly<Record<string, FormValues>> = {
  ...least,
  fine_tune: { dataset: file('set.zip', zipOf({ 'a.nii': 'a' })) },
};

/** What an answer tells, but for the time that it was made. */
interface Told {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** All that bob was ever told. */
const toldBob: Told[] = [];

async function ask(name: RouteName, token: string | null, id = nobody, query = ''): Promise<Told> {
  const { method, path } = routes[name];
  const address = path.replace('{app}', 'probe').replace(/\{(id|sha256)\}/, id);
  const devices = name === 'vram' ? '?devices=0' : query;
  const form = forms[name];
  const response = await fetch(server.url + address + devices, {
    method,
    headers: {
      ...(path.startsWith('/uploads') ? ofTus : {}),
      ...(token === null ? {} : { Authorization: `Bearer ${token}` }),
    },
    ...(form ? { body: formOf({ ...form, ...onCpu }) } : {}),
  });
  const { date: _, ...headers } = Object.fromEntries(response.headers);
  // One that is begun is told when it ends.
  delete headers['upload-expires'];
  const told = { status: response.status, headers, body: await response.text() };
  if (token === tokens.of('bob')) toldBob.push(told);
  return told;
}

const running = { ...least.infer, ...onCpu, ...steps('wait=/nobody/opens/this') };

let done = '';
let active = '';
let gone = '';
const own: string[] = [];

/** A job of ana's that is done. */
async function newDone(): Promise<string> {
  const { id } = await ana.run('infer', { ...least.infer, ...onCpu });
  own.push(id);
  return id;
}

/** A job of ana's that runs until it is killed. */
async function newRunning(): Promise<string> {
  const { job_id: id } = await ana.accepted('infer', running);
  own.push(id);
  await ana.reaches(id, 'running');
  return id;
}

beforeAll(async () => {
  [done, active, gone] = [await newDone(), await newRunning(), await newDone()];
  await ana.fetch(`/jobs/${gone}`, { method: 'DELETE' });
});
afterAll(async () => {
  await ana.kill(active).catch(() => {});
});

test('The table in this test lists exactly the routes of the service', () => {
  expect(Object.keys(expected).sort()).toEqual([...routeNames].sort());
  for (const name of routeNames)
    expect([name, 'user' in expected[name]]).toEqual([name, others.includes(name)]);
});

describe.each(strangers)('%s', (_, token, sentence) => {
  test.for(routeNames)('%s gets 401 from %s, whatever it refers to', async (name) => {
    const ids = isOfJob(name) ? [done, active, gone, nobody] : [upload, noUpload];
    for (const id of ids) {
      const { status, headers, body } = await ask(name, token(), id);
      expect([status, headers['www-authenticate']]).toEqual([401, 'Bearer']);
      // An answer to HEAD has no body.
      if (routes[name].method !== 'HEAD') expect(JSON.parse(body).detail).toMatch(sentence);
    }
  });
});

describe('a route that is about no job', () => {
  test.for(others)('%s answers users and admins as the table says', async (name) => {
    const row = expected[name] as { user: number; admin: number };
    for (const user of ['ana', 'bob'])
      expect([user, (await ask(name, tokens.of(user))).status]).toEqual([user, row.user]);
    for (const [who, token] of admins)
      expect([who, (await ask(name, token())).status]).toEqual([who, row.admin]);
  });
});

describe('a route about an upload', () => {
  test.for(ofUploads)(
    '%s answers its owner, and treats the upload as unknown for everyone else',
    async (name) => {
      await ask('beginUpload', tokens.of('ana'));
      for (const token of [tokens.of('bob'), ...admins.map(([, of]) => of())]) {
        // One of their own, as other tests begin it.
        await ask('removeUpload', token, upload);
        const unknown = await ask(name, token, noUpload);
        expect(unknown.status).toBe(404);
        expect(await ask(name, token, upload)).toEqual(unknown);
      }
      expect((await ask(name, tokens.of('ana'), upload)).status).toBe(
        (expected[name] as { own: number }).own,
      );
    },
  );
});

describe('a route about a job', () => {
  const statusesOf = (name: RouteName) => expected[name] as { done: number; running: number };
  const fresh = async (name: RouteName, make: () => Promise<string>, id: string): Promise<string> =>
    name === 'kill' || name === 'remove' ? make() : id;
  const query = (name: RouteName) => (name === 'logs' ? '?tail=0' : '');

  /** Asks, and does not wait for the end of a log that goes on. */
  async function statusOf(name: RouteName, token: string, id: string): Promise<number> {
    if (name !== 'logs') return (await ask(name, token, id)).status;
    return until('the log is free', async () => {
      const abort = new AbortController();
      const { status } = await fetch(`${server.url}/jobs/${id}/logs${query(name)}`, {
        headers: { Authorization: `Bearer ${token}` },
        signal: abort.signal,
      });
      abort.abort();
      return status === 429 ? null : status;
    });
  }

  test.for(ofJobs)('%s answers its owner, and admins', async (name) => {
    const row = statusesOf(name);
    for (const [who, token] of [['ana', () => tokens.of('ana')], ...admins] as const) {
      const told = [
        await statusOf(name, token(), await fresh(name, newDone, done)),
        await statusOf(name, token(), await fresh(name, newRunning, active)),
        await statusOf(name, token(), gone),
        await statusOf(name, token(), nobody),
      ];
      expect([who, told]).toEqual([who, [row.done, row.running, 410, 404]]);
    }
  });

  /** What could be asked of each route beside the plain request. */
  const variants: readonly string[] = [
    '',
    '?partial=1',
    '?partial=x',
    '?since=0',
    '?since=x',
    '?tail=3',
    '?all=1',
  ];

  test.for(ofJobs)('%s answers another user as if the job did not exist', async (name) => {
    for (const variant of variants) {
      const unknown = await ask(name, tokens.of('bob'), nobody, variant);
      expect([unknown.status, unknown.body]).toEqual([404, '{"detail":"Unknown job_id"}']);
      for (const id of [done, active, gone]) {
        expect([variant, await ask(name, tokens.of('bob'), id, variant)]).toEqual([variant, unknown]);
      }
    }
  });

  test('A route about a job does not reveal it to another user while its log is open or it is downloaded', async () => {
    await using _log = await ana.follow(active);
    expect((await ask('logs', tokens.of('bob'), active)).status).toBe(404);
    const headers = { Authorization: `Bearer ${tokens.of('bob')}`, Range: 'bytes=0-0', 'If-None-Match': '*' };
    for (const method of ['GET', 'HEAD']) {
      const statuses = [];
      for (const id of [done, active, gone, nobody])
        statuses.push((await fetch(`${server.url}/jobs/${id}/result`, { method, headers })).status);
      expect(statuses).toEqual([404, 404, 404, 404]);
    }
  });

  test('A route about a job has no effect for another user', async () => {
    for (const id of [done, active]) {
      await ask('kill', tokens.of('bob'), id);
      await ask('remove', tokens.of('bob'), id);
    }
    expect((await ana.job(done)).status).toBe('done');
    expect((await ana.job(active)).status).toBe('running');
  });

  test('A route about a job takes as long for another user as for a job that does not exist', async () => {
    const middle = (times: number[]) => times.sort((a, b) => a - b)[times.length >> 1] ?? 0;
    for (const name of ofJobs) {
      const times: Record<string, number[]> = {};
      for (let round = 0; round < 25; round += 1) {
        for (const id of [nobody, done, active, gone]) {
          const start = performance.now();
          await ask(name, tokens.of('bob'), id);
          times[id] = [...(times[id] ?? []), performance.now() - start];
        }
      }
      // A kill waits for processes, a removal for a disk: what is refused waits for neither.
      const usual = middle(times[nobody] ?? []);
      for (const id of [done, active, gone])
        expect(middle(times[id] ?? []), `${name} ${id}`).toBeLessThan(3 * usual + 20);
    }
  });
});

test("Another user's list and limits are unaffected by what others do", async () => {
  const before = [await ask('jobs', tokens.of('bob')), await ask('limits', tokens.of('bob'))];
  const id = await newRunning();
  const after = [await ask('jobs', tokens.of('bob')), await ask('limits', tokens.of('bob'))];
  await ana.kill(id);
  expect(after).toEqual(before);
  expect(
    (await bob.json<{ jobs: { owner: string }[] }>('/jobs')).jobs.every(({ owner }) => owner === 'bob'),
  ).toBe(true);
});

test("No answer to another user contains an owner's name or job id", () => {
  expect(toldBob.length).toBeGreaterThan(500);
  const text = JSON.stringify(toldBob);
  for (const id of own) expect(text).not.toContain(id);
  expect(text).not.toMatch(/\bana\b/);
});
