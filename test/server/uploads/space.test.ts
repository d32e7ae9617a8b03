import { readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { least } from '../../support/form.js';
import { file } from '../../support/form.mjs';
import { TestServer } from '../../support/server.js';
import { smallDisk } from '../../support/small-disk.js';
import { TestClock } from '../../support/test-clock.js';
import { TestTokens } from '../../support/tokens.js';
import { sha256, Tus } from '../../support/tus.js';

const mebibyte = 2 ** 20;
const filled = (mebibytes: number, letter: string) => Buffer.alloc(mebibytes * mebibyte, letter);
const disk = smallDisk(24);

/** Seconds after which an upload may go for the sake of others. */
const notRecent = 601;

// Not every machine allows mounting.
describe.skipIf(disk === null)('uploads on a full disk', () => {
  const dataDirectory = path.join(disk ?? '', 'data');
  afterEach(() => rmSync(dataDirectory, { recursive: true }));

  test('A full disk refuses an upload that does not fit before its bytes, and keeps existing data', async () => {
    await using server = await TestServer.start({ dataDirectory });
    const tus = new Tus(server.api);
    const small = await tus.send(filled(2, 'a'));
    const large = filled(30, 'b');
    expect(await tus.begin(large, large)).toMatchObject({
      status: 507,
      detail: expect.stringMatching(/disk/),
    });
    expect((await tus.head(sha256(large))).status).toBe(404);
    expect((await tus.head(small)).offset).toBe(2 * mebibyte);
  });

  test('A full disk honours its promises: two uploads that fit continue, a third is refused, and small ones are accepted', async () => {
    await using server = await TestServer.start({ dataDirectory });
    const tus = new Tus(server.api);
    const [one, two, third] = [filled(8, 'c'), filled(9, 'd'), filled(6, 'e')];
    for (const content of [one, two]) expect((await tus.begin(content)).status).toBe(201);
    expect((await tus.begin(third)).status).toBe(507);
    expect((await server.api.refused('infer', { inputs: file('ct.nii', third) }))[0]).toBe(507);
    await tus.send(filled(1, 'f'));
    for (const content of [two, one]) expect((await tus.patch(sha256(content), 0, content)).status).toBe(204);
    // What is removed leaves room again.
    await tus.remove(sha256(one));
    expect((await tus.begin(third)).status).toBe(201);
  });

  test('A full disk does not evict data of an owner who keeps less than the sender', async () => {
    const clock = new TestClock();
    await using tokens = new TestTokens();
    for (const name of ['ana', 'bob', 'cy']) tokens.create(name);
    await using server = await TestServer.start({ dataDirectory, clock, flags: ['--tokens', tokens.file] });
    const [ana, bob, cy] = ['ana', 'bob', 'cy'].map((name) => new Tus(tokens.api(server, name)));
    if (!ana || !bob || !cy) throw new Error('no tokens');
    const kept = await ana.send(filled(3, 'a'));
    clock.pass(notRecent);
    const statuses: number[] = [];
    for (const letter of 'bcdefg')
      statuses.push((await bob.begin(filled(4, letter), filled(4, letter))).status);
    expect(statuses).toEqual([201, 201, 201, 201, 507, 507]);
    expect((await ana.head(kept)).offset).toBe(3 * mebibyte);
    // Bob's files may go once they are not recent. A claim of Cy's takes none of them, and what Cy sends takes no more than it needs.
    clock.pass(notRecent);
    const large = filled(7, 'h');
    expect(await cy.begin(large)).toMatchObject({ status: 201 });
    const left = async () => {
      const found = await Promise.all([...'bcde'].map((letter) => bob.head(sha256(filled(4, letter)))));
      return found.map(({ status }) => status).join(' ');
    };
    const uploads = path.join(dataDirectory, 'uploads');
    const count = () =>
      readdirSync(uploads, { recursive: true }).filter((name) => /[0-9a-f]{64}$/.test(String(name))).length;
    expect(count()).toBe(5);
    expect((await cy.patch(sha256(large), 0, large)).status).toBe(204);
    expect(await left()).toBe('404 404 200 200');
    expect((await ana.head(kept)).offset).toBe(3 * mebibyte);
  });

  test('A full disk does not evict the uploads of others for a request that cannot be met', async () => {
    const clock = new TestClock();
    await using tokens = new TestTokens();
    for (const name of ['ana', 'bob']) tokens.create(name);
    await using server = await TestServer.start({ dataDirectory, clock, flags: ['--tokens', tokens.file] });
    const ana = new Tus(tokens.api(server, 'ana'));
    const kept = await ana.send(filled(3, 'a'));
    clock.pass(notRecent);
    const claim = await new Tus(tokens.api(server, 'bob')).begin(filled(30, 'b'));
    expect([claim.status, (await ana.head(kept)).offset]).toEqual([507, 3 * mebibyte]);
  });

  test('A full disk evicts uploads that have not been used for a while before results', async () => {
    const clock = new TestClock();
    await using server = await TestServer.start({ dataDirectory, clock, flags: ['--grace', '86000'] });
    const tus = new Tus(server.api);
    const { id } = await server.api.run('infer', least.infer);
    await (await server.api.fetch(`/jobs/${id}/result`)).arrayBuffer();
    const upload = await tus.send(filled(9, 'e'));
    const refused = await server.api.submit('infer', { inputs: file('ct.nii', filled(13, 'f')) });
    // The upload was just sent, and its submission may be about to come; the result alone is too little.
    expect(refused.status).toBe(507);
    const { id: second } = await server.api.run('infer', least.infer);
    await (await server.api.fetch(`/jobs/${second}/result`)).arrayBuffer();
    clock.pass(notRecent);
    await server.api.accepted('infer', { inputs: file('ct.nii', filled(13, 'f')) });
    expect((await tus.head(upload)).status).toBe(404);
    expect((await server.api.job(second)).status).toBe('done');
  });
});

describe("an owner's storage limit", () => {
  async function limited(maxKept: number, clock = new TestClock()) {
    const tokens = new TestTokens();
    tokens.create('ana');
    tokens.edit((before) => ({
      ...before,
      tokens: before.tokens.map((each) => ({ ...each, limits: { max_kept: maxKept } })),
    }));
    const server = await TestServer.start({ clock, flags: ['--tokens', tokens.file] });
    const api = tokens.api(server, 'ana');
    return {
      api,
      tus: new Tus(api),
      clock,
      [Symbol.asyncDispose]: async () => {
        await server[Symbol.asyncDispose]();
        await tokens[Symbol.asyncDispose]();
      },
    };
  }

  test("An owner's storage limit is shared by uploads and jobs, and an upload that is not recent makes room", async () => {
    await using ana = await limited(mebibyte);
    const [one, two] = [Buffer.alloc(600_000, '1'), Buffer.alloc(600_000, '2')];
    await ana.tus.send(one);
    expect(await ana.tus.begin(two, two)).toMatchObject({
      status: 507,
      detail: expect.stringMatching(/just used/),
    });
    expect((await ana.tus.begin(Buffer.alloc(mebibyte + 1))).status).toBe(507);
    ana.clock.pass(notRecent);
    expect(await ana.tus.begin(two, two)).toMatchObject({ status: 201, offset: two.length });
    expect((await ana.tus.head(sha256(one))).status).toBe(404);
  });

  test("An owner's storage limit counts files used by a submission once, and jobs take precedence over uploads", async () => {
    await using ana = await limited(mebibyte);
    const content = Buffer.alloc(900_000, '3');
    const upload = await ana.tus.send(content);
    const submit = (...names: string[]) =>
      ana.api.fetch('/apps/probe/infer', {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ inputs: names.map((name) => ({ upload, name })) }),
      });
    // The job gets files of its own.
    const twice = await submit('ct.nii', 'mr.nii');
    expect([twice.status, await twice.json()]).toEqual([
      413,
      {
        detail:
          'The upload is larger than the limit of 1.0 MiB, which is left of the 1.0 MiB that its jobs may keep ' +
          "(the limit of the token 'ana')",
      },
    ]);
    const response = await submit('ct.nii');
    expect(response.status).toBe(200);
    await ana.api.ended(((await response.json()) as { job_id: string }).job_id);
    expect((await ana.tus.head(upload)).status).toBe(404);
  });
});
