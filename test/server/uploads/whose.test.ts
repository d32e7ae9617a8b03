import { readdirSync } from 'node:fs';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import type { Usage } from '../../../src/contract/usage.js';
import { sharedServer, TestServer } from '../../support/server.js';
import { TestTokens } from '../../support/tokens.js';
import { sha256, Tus } from '../../support/tus.js';
import { until } from '../../support/until.mjs';

const tokens = new TestTokens();
for (const name of ['ana', 'bob', 'eve']) tokens.create(name);
afterAll(() => tokens[Symbol.asyncDispose]());

const server = sharedServer({ token: 'of-the-environment', flags: ['--tokens', tokens.file] });
const [ana, bob] = [new Tus(tokens.api(server, 'ana')), new Tus(tokens.api(server, 'bob'))];
const admin = new Tus(server.api);

/** All files and directories of uploads. */
const onDisk = (of: TestServer) =>
  readdirSync(path.join(of.dataDirectory, 'uploads'), { recursive: true, encoding: 'utf8' });

/** What an answer tells, but for the time that it was made, and the name that was asked for. */
async function told(principal: Tus, name: string, method: string, headers: Readonly<Record<string, string>>) {
  const { headers: all, ...more } = await principal.ask(method, `/uploads/${name}`, headers);
  const { date: _, ...kept } = Object.fromEntries(all);
  return { ...more, headers: kept };
}

test('In 1,000 requests, another user gets the same answers about an upload as about one that does not exist', async () => {
  const [whole, begun, nobody] = ['of ana, whole', 'of ana, begun', 'of nobody'].map(sha256) as [
    string,
    string,
    string,
  ];
  await ana.send('of ana, whole');
  await ana.begin('of ana, begun', 'of');
  const patch = { 'Upload-Offset': '0', 'Content-Type': 'application/offset+octet-stream' };
  const asks = [
    ['HEAD', {}],
    ['PATCH', patch],
    ['PATCH', { ...patch, 'Upload-Offset': '2' }],
    ['DELETE', {}],
    ['HEAD', { 'Tus-Resumable': '2' }],
  ] as const;
  for (const principal of [bob, admin]) {
    for (const [method, headers] of asks) {
      const unknown = await told(principal, nobody, method, headers);
      expect([404, 412]).toContain(unknown.status);
      const rounds = Array.from({ length: 51 }, () => [whole, begun]).flat();
      const answers = await Promise.all(rounds.map((name) => told(principal, name, method, headers)));
      for (const answer of answers) expect(answer).toEqual(unknown);
    }
  }
  expect([(await ana.head(whole)).offset, (await ana.head(begun)).offset]).toEqual([13, 2]);
});

test('An upload of another user must be sent again, and no submission may name it', async () => {
  const upload = await ana.send('of both');
  const submit = async (api: Pick<TestServer['api'], 'fetch'>, name: string) => {
    const submitted = await api.fetch('/apps/probe/infer', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ inputs: [{ upload: name, name: 'ct.nii' }] }),
    });
    return [submitted.status, (await submitted.text()).replaceAll(name, 'NAME')] as const;
  };
  for (const api of [tokens.api(server, 'bob'), server.api]) {
    const [status, body] = await submit(api, upload);
    expect([status, JSON.parse(body)]).toMatchObject([409, { uploads: ['NAME'] }]);
    expect(await submit(api, sha256('of nobody'))).toEqual([status, body]);
  }
  expect(await bob.begin('of both')).toMatchObject({ status: 201, offset: 0 });
  expect(await bob.patch(upload, 0, 'of both')).toMatchObject({ offset: 7 });
  await bob.remove(upload);
  expect((await ana.head(upload)).offset).toBe(7);
});

test('Usage shows users what they keep, and an admin what everybody keeps', async () => {
  const eve = new Tus(tokens.api(server, 'eve'));
  await eve.send('12345');
  await eve.begin('67890');
  const own = (await tokens.api(server, 'eve').json('/usage')) as unknown as Usage;
  expect(own.uploads).toEqual([{ owner: 'eve', uploads: 2, bytes_kept: 10 }]);
  const all = (await server.api.json('/usage')) as unknown as Usage;
  expect(all.uploads?.map(({ owner }) => owner)).toEqual(expect.arrayContaining(['ana', 'eve']));
});

test("Revoking a token removes its uploads, immediately and at startup, and nobody else's", async () => {
  await using tokensOfTest = new TestTokens();
  for (const name of ['kim', 'lea', 'mo']) tokensOfTest.create(name);
  await using other = await TestServer.start({ flags: ['--tokens', tokensOfTest.file] });
  for (const name of ['kim', 'lea', 'mo']) await new Tus(tokensOfTest.api(other, name)).send(`of ${name}`);
  const has = (name: string) => onDisk(other).some((entry) => entry.endsWith(sha256(`of ${name}`)));
  expect(onDisk(other).join()).not.toMatch(/kim|lea|mo$/);
  tokensOfTest.revoke('kim');
  other.reload();
  await until('the files are gone', () => !has('kim'));
  tokensOfTest.rotate('kim');
  expect((await new Tus(tokensOfTest.api(other, 'kim')).head(sha256('of kim'))).status).toBe(404);
  await other.stop();
  tokensOfTest.revoke('lea');
  await other.start();
  await until('the files are gone', () => !has('lea'));
  expect(await new Tus(tokensOfTest.api(other, 'mo')).head(sha256('of mo'))).toMatchObject({ offset: 5 });
});
