import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { refusal } from '../../support/api.js';
import { least } from '../../support/form.js';
import { formOf } from '../../support/form.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { apps, sharedServer } from '../../support/server.js';
import { unzip } from '../../support/unzip.mjs';

const root = mkdtempSync(path.join(tmpdir(), 'remote-app-test-'));
afterAll(() => rmSync(root, { recursive: true }));
const directory = path.join(root, 'apps', 'Tiny');
mkdirSync(path.dirname(directory));
cpSync(apps.shell, directory, { recursive: true });
const list = path.join(root, 'apps.json');
const slashed = 'VBoussot/ImpactSynth:MR';
writeFileSync(list, JSON.stringify({ apps: [{ name: slashed, source: directory }, directory] }));

const server = sharedServer({ runners: true, apps: [apps.probe, list] });
const { api } = server;

describe('an unknown route', () => {
  test.for([
    ['GET', '/'],
    ['GET', '/nothing'],
    ['GET', '/healthy'],
    ['POST', '/apps/probe'],
    ['POST', '/apps/probe/destroy'],
    ['POST', '/apps//infer'],
    ['GET', '/jobs/0123456789ab/nothing'],
    ['GET', '/%zz'],
    ['GET', '/jobs/a/b/c'],
  ])('An unknown route is answered with 404 in JSON: %s %s', async ([method = '', where = '']) => {
    const detail = `There is no ${method} ${where}`;
    expect(await refusal(await api.fetch(`${where}?secret=1`, { method }))).toEqual([404, detail]);
  });
});

describe('a method that a route does not have', () => {
  test.for([
    ['POST', '/health', 'GET'],
    ['GET', '/apps/probe/infer', 'POST'],
    ['PATCH', '/repo_apps/probe', 'GET'],
    ['PROPFIND', '/health', 'GET'],
  ])(
    'A wrong method is answered with 405 and the allowed ones: %s %s',
    async ([method = '', where = '', allowed = '']) => {
      const response = await api.fetch(`${where}?secret=1`, { method });
      expect(response.headers.get('allow')?.split(', ')).toContain(allowed);
      expect(await refusal(response)).toEqual([405, `${where} does not take ${method}`]);
    },
  );
});

describe("an app's identifier", () => {
  const forms = [
    ['percent-encoded', encodeURIComponent(slashed), slashed],
    ['raw', slashed, slashed],
    ['percent-encoded in part', 'VBoussot/ImpactSynth%3AMR', slashed],
    ['a directory, raw', directory, directory],
    ['a directory, percent-encoded', encodeURIComponent(directory), directory],
    ['plain', 'probe', 'probe'],
  ] as const;

  test.for(forms)("An app's identifier may be %s, on every route that takes one", async ([, inPath, id]) => {
    expect(await api.json(`/repo_apps/${inPath}`)).toMatchObject({ app: id, available: true });
    const config = await api.fetch(`/repo_apps_config/${inPath}`);
    expect((await unzip(Buffer.from(await config.arrayBuffer()))).has('app.json')).toBe(true);
    const response = await api.fetch(`/apps/${inPath}/infer`, { method: 'POST', body: formOf(least.infer) });
    const { job_id } = (await response.json()) as { job_id: string };
    const { view, log } = await api.ended(job_id);
    expect(view).toMatchObject({ app: id, status: 'done' });
    expect(log).toContain(`accepted: infer on ${id}\n`);
  });

  test("An app's identifier is sent unchanged: two slashes are not normalised", async () => {
    await using connection = await RawConnection.open(server.url);
    connection.write(`GET /repo_apps/${directory} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    expect(JSON.parse((await connection.answer()).body)).toMatchObject({ available: true });
  });

  test.for([
    'nobody',
    'probe/x',
    '../probe',
    '%2e%2e%2fprobe',
    encodeURIComponent(root),
    'Probe',
    'prob%65%00',
  ])("An app's identifier that is not on the allowlist is answered with 404: %s", async (id) => {
    const unknown = [404, expect.stringMatching(/^(Unknown app|There is no)/)];
    expect(await refusal(await api.fetch(`/repo_apps/${id}`))).toEqual(unknown);
    expect(await refusal(await api.fetch(`/repo_apps_config/${id}`))).toEqual(unknown);
    const submission = { method: 'POST', body: formOf(least.infer) };
    expect(await refusal(await api.fetch(`/apps/${id}/infer`, submission))).toEqual(unknown);
  });

  test("An app's identifier is named in the 404", async () => {
    expect(await refusal(await api.fetch('/repo_apps/no%2Fbody%3Ax'))).toEqual([
      404,
      "Unknown app 'no/body:x'",
    ]);
  });
});
