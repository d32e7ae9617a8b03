import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { TestServer } from '../support/server.js';

const tokenPattern = /^ra_[A-Za-z0-9_-]{43}\n$/;

/** The commands on one file. */
async function onFile(name = 'tokens.json') {
  const cli = await Cli.create();
  const file = path.join(cli.directory, name);
  return {
    cli,
    file,
    // Whatever listens on the default port of this machine is not asked.
    token: (...words: string[]) =>
      cli.run(['token', ...words, '--tokens', file], { REMOTE_APP_SERVER: 'http://127.0.0.1:1' }),
    entries: () => JSON.parse(readFileSync(file, 'utf8')).tokens as Record<string, unknown>[],
    [Symbol.asyncDispose]: () => cli[Symbol.asyncDispose](),
  };
}

describe('token create', () => {
  test('token create prints only the token on stdout, once, and keeps a hash of it', async () => {
    await using tokens = await onFile();
    const { code, stdout, stderr } = await tokens.token('create', 'ana');
    expect([code, stdout]).toEqual([0, expect.stringMatching(tokenPattern)]);
    expect(stderr).toBe(
      "This is the token of 'ana' (user). It is not shown again; 'remote-app login' saves it.\n",
    );
    expect(tokens.entries()).toMatchObject([{ name: 'ana', role: 'user', expires_at: null }]);
    expect(readFileSync(tokens.file, 'utf8')).not.toContain(stdout.trim());
    expect(statSync(tokens.file).mode & 0o777).toBe(0o600);
    expect((await tokens.token('list')).stdout).toMatch(/^ana +user +active +just now +never$/m);
    expect(readdirSync(tokens.cli.directory)).toEqual(['tokens.json']);
  });

  test('token create can limit how long a token is valid', async () => {
    await using tokens = await onFile();
    const made = await tokens.token('create', 'ana', '--expires', '90d');
    const until = String(tokens.entries()[0]?.expires_at);
    expect(made.stderr).toBe(
      `This is the token of 'ana' (user) until ${until}. It is not shown again; 'remote-app login' saves it.\n`,
    );
    const left = Date.parse(until) - Date.now();
    expect(left / 86_400_000).toBeCloseTo(90, 1);
    const { code, stderr } = await tokens.token('create', 'bob', '--expires', 'soon');
    expect(code, stderr).toBe(2);
    expect(stderr).toContain("--expires takes a time such as 12h or 90d, or 'never', got 'soon'");
  });

  test.for(['ana maria', '', '-ana'])('token create refuses an invalid name: %j', async (name) => {
    await using tokens = await onFile();
    const { code, stderr } = await tokens.token('create', '--role', 'user', '--', name);
    expect(code, stderr).toBe(2);
    expect(existsSync(tokens.file)).toBe(false);
  });

  test('token create refuses a name that is in use, even by a revoked token or in another case', async () => {
    await using tokens = await onFile();
    await tokens.token('create', 'ana');
    expect((await tokens.token('create', 'Ana')).stderr).toContain("The token 'ana' already exists");
    await tokens.token('revoke', 'ana');
    const { code, stderr } = await tokens.token('create', 'ana');
    expect([code, stderr]).toEqual([2, expect.stringContaining("'token rotate ana'")]);
  });

  test('token create loses no tokens that are created at the same time', { timeout: 120_000 }, async () => {
    await using tokens = await onFile();
    const names = Array.from({ length: 8 }, (_, index) => `user-${index}`);
    const ends = await Promise.all(names.map((name) => tokens.token('create', name)));
    expect(ends.map(({ code, stderr }) => [code, code === 0 ? '' : stderr])).toEqual(
      names.map(() => [0, '']),
    );
    expect(
      tokens
        .entries()
        .map(({ name }) => name)
        .sort(),
    ).toEqual(names);
    expect(readdirSync(tokens.cli.directory)).toEqual(['tokens.json']);
  });

  test('token create preserves the owner, the mode and the location of the file', async () => {
    await using tokens = await onFile('link.json');
    const real = path.join(tokens.cli.directory, 'etc', 'tokens.json');
    mkdirSync(path.dirname(real));
    symlinkSync(real, tokens.file);
    // A link that leads nowhere yet: the file is made beside the link only when there is none.
    await tokens.cli.run(['token', 'create', 'ana', '--tokens', real]);
    chmodSync(real, 0o640);
    const isRoot = process.getuid?.() === 0;
    if (isRoot) chownSync(real, 0, 12345);
    await tokens.token('create', 'bob');
    const { mode, gid } = statSync(real);
    expect([mode & 0o777, isRoot ? gid : 12345]).toEqual([0o640, 12345]);
    expect(tokens.entries()).toHaveLength(2);
    expect(readdirSync(tokens.cli.directory).sort()).toEqual(['etc', 'link.json']);
  });

  test('token create does not change a file that is broken or that others can write', async () => {
    await using tokens = await onFile();
    await tokens.token('create', 'ana');
    chmodSync(tokens.file, 0o666);
    const before = readFileSync(tokens.file, 'utf8');
    const { code, stderr } = await tokens.token('create', 'bob');
    expect([code, stderr]).toEqual([2, expect.stringContaining(`run 'chmod go-w ${tokens.file}'`)]);
    expect(readFileSync(tokens.file, 'utf8')).toBe(before);
  });

  test('token create says so if it may not write', async () => {
    await using tokens = await onFile('gone/tokens.json');
    const { code, stderr } = await tokens.token('create', 'ana');
    expect([code, stderr]).toEqual([2, expect.stringContaining('no such file or directory')]);
    expect(stderr).not.toContain('ra_');
  });
});

describe('token rotate', () => {
  test('token rotate issues a new token with the same name and role, even after a revocation', async () => {
    await using tokens = await onFile();
    const first = (await tokens.token('create', 'ana', '--role', 'admin')).stdout;
    const before = tokens.entries()[0];
    const second = (await tokens.token('rotate', 'ana')).stdout;
    expect(second).toMatch(tokenPattern);
    expect(second).not.toBe(first);
    expect(tokens.entries()).toMatchObject([
      { ...before, hash: expect.not.stringMatching(String(before?.hash)) },
    ]);
    await tokens.token('revoke', 'ana');
    expect(tokens.entries()[0]).toMatchObject({ hash: null, revoked_at: expect.any(String) });
    expect((await tokens.token('list')).stdout).toMatch(/^ana +admin +revoked/m);
    await tokens.token('rotate', 'ana');
    expect((await tokens.token('list')).stdout).toMatch(/^ana +admin +active/m);
  });

  test('token rotate needs --expires for an expired token, as its help says', async () => {
    await using tokens = await onFile();
    await tokens.token('create', 'ana', '--expires', '90d');
    const past = { ...tokens.entries()[0], expires_at: '2026-01-01T00:00:00.000Z' };
    writeFileSync(tokens.file, JSON.stringify({ version: 1, roles: {}, tokens: [past] }));
    const { code, stderr } = await tokens.token('rotate', 'ana');
    expect([code, stderr]).toEqual([2, expect.stringContaining('--expires 90d, or --expires never')]);
    expect((await tokens.token('rotate', 'ana', '--expires', 'never')).stdout).toMatch(tokenPattern);
    const help = (await tokens.cli.run(['token', 'rotate', '--help'])).stdout.replace(/\s+/g, ' ');
    expect(help).toContain('an expired one also needs --expires');
  });

  test.for(['rotate', 'revoke'])('%s with an unknown name says so', async (verb) => {
    await using tokens = await onFile();
    await tokens.token('create', 'ana');
    const { code, stderr } = await tokens.token(verb, 'anna');
    expect([code, stderr]).toEqual([2, expect.stringContaining("There is no token named 'anna'")]);
  });
});

test('token limit without a new limit shows the current ones, and writes nothing', async () => {
  await using tokens = await onFile();
  const missing = await tokens.token('limit', '--role', 'user');
  expect([missing.code, existsSync(tokens.file)]).toEqual([2, false]);
  await tokens.token('create', 'ana', '--max-jobs', '3');
  const before = statSync(tokens.file, { bigint: true });
  expect(await tokens.token('limit', 'ana')).toMatchObject({
    code: 0,
    stdout: 'ana: at most 3 active jobs\n',
  });
  expect((await tokens.token('limit', 'eve')).stderr).toContain("There is no token named 'eve'");
  const { ino, mtimeNs } = statSync(tokens.file, { bigint: true });
  expect([ino, mtimeNs]).toEqual([before.ino, before.mtimeNs]);
});

test('token limit refuses a size that the file cannot store', async () => {
  await using tokens = await onFile();
  await tokens.token('create', 'ana');
  expect((await tokens.token('limit', 'ana', '--max-kept', '9000TiB')).code).toBe(2);
  expect((await tokens.token('list')).code).toBe(0);
});

test('token create --apps and token limit --apps set the apps of a token', async () => {
  await using tokens = await onFile();
  await tokens.token('create', 'ana', '--apps', 'liver, brain,liver');
  expect(tokens.entries()[0]).toMatchObject({ apps: ['liver', 'brain'] });
  await tokens.token('create', 'bob');
  expect(tokens.entries()[1]).not.toHaveProperty('apps');
  expect((await tokens.token('limit', 'ana')).stdout).toBe('ana: only 2 apps: liver, brain\n');
  const limited = await tokens.token('limit', 'bob', '--apps', 'liver', '--max-jobs', '2');
  expect(limited.stdout).toBe('bob: at most 2 active jobs; only 1 app: liver\n');
  expect((await tokens.token('list')).stdout).toMatch(/^NAME .* APPS\nana .* liver, brain\nbob .* liver$/m);
  expect((await tokens.token('limit', 'ana', '--apps', 'all')).stdout).toBe('ana: no limits\n');
  expect(tokens.entries()[0]).not.toHaveProperty('apps');
  expect((await tokens.token('limit', 'ana', '--apps', 'liver,')).stderr).toContain(
    "--apps takes ids of apps, or 'all', got 'liver,'",
  );
  expect((await tokens.token('limit', '--role', 'user', '--apps', 'liver')).stderr).toContain(
    '--apps is for a token, not for a role',
  );
  expect((await tokens.token('rotate', 'bob')).code).toBe(0);
  expect(tokens.entries()[1]).toMatchObject({ apps: ['liver'] });
});

test('token list shows inherited limits and where they come from', async () => {
  await using tokens = await onFile();
  await tokens.token('create', 'ana');
  await tokens.token('create', 'bob');
  const root = (await tokens.token('create', 'root', '--role', 'admin')).stdout.trim();
  await tokens.token('limit', '--role', 'user', '--max-kept', '50GiB');
  await tokens.token('limit', 'bob', '--max-jobs', '2', '--max-kept', 'none', '--max-upload', '1GiB');
  const alone = (await tokens.token('list')).stdout;
  expect(alone).toMatch(/^NAME +ROLE +STATE +CREATED +EXPIRES +MAX JOBS +MAX KEPT +MAX UPLOAD$/m);
  expect(alone).toMatch(/^ana .* never +50.0 GiB \(role\)$/m);
  expect(alone).toMatch(/^bob .* never +2 +none +1.0 GiB$/m);
  expect(alone).toMatch(/^root .* never$/m);

  await using server = await TestServer.start({
    flags: [
      ...['--tokens', tokens.file, '--max-jobs', '8', '--max-upload-size', '2GiB'],
      ...['--user-max-jobs', '3', '--user-max-kept', '9GiB'],
    ],
  });
  const env = { REMOTE_APP_SERVER: server.url, SERVICE_API_TOKEN: root };
  const list = ['token', 'list', '--tokens', tokens.file];
  const asked = (await tokens.cli.run(list, env)).stdout;
  expect(asked).toMatch(/^ana .* 3 \(server\) +50.0 GiB \(role\) +2.0 GiB \(server\)$/m);
  expect(asked).toMatch(/^bob .* 2 +none +1.0 GiB$/m);
  expect(asked).toMatch(/^root .* 8 \(server\) +2.0 GiB \(server\)$/m);
  const { tokens: listed } = JSON.parse((await tokens.cli.run([...list, '--json'], env)).stdout);
  expect(listed[0]).toMatchObject({
    limits: {},
    inherited: {
      max_jobs: { most: 3, of: 'server' },
      max_kept: { most: 50 * 2 ** 30, of: 'role' },
      max_upload: { most: 2 * 2 ** 30, of: 'server' },
    },
  });
});

test('token without a subcommand shows what it can do, and a misspelled subcommand gets a suggestion', async () => {
  await using tokens = await onFile();
  const { code, stdout } = await tokens.cli.run(['token']);
  expect([code, stdout]).toEqual([0, expect.stringContaining('token create')]);
  const wrong = await tokens.cli.run(['token', 'revok', 'ana']);
  expect(wrong.code, wrong.stderr).toBe(2);
  expect(wrong.stderr).toContain("There is no command 'token revok'; did you mean 'token revoke'?");
});

test('jobs lists the jobs of the user, and jobs --all lists all jobs with their owners', async () => {
  await using tokens = await onFile();
  const [ana, root] = [
    (await tokens.token('create', 'ana')).stdout.trim(),
    (await tokens.token('create', 'root', '--role', 'admin')).stdout.trim(),
  ];
  await using server = await TestServer.start({ flags: ['--tokens', tokens.file] });
  const as = (token: string) => ({
    REMOTE_APP_SERVER: server.url,
    REMOTE_APP_APP: 'probe',
    SERVICE_API_TOKEN: token,
  });
  const { run } = tokens.cli;
  const cli = (words: string[], token: string) => run.call(tokens.cli, words, as(token));
  const { stdout: id } = await cli(['infer', path.join(tokens.file), '--detach'], ana);
  expect((await cli(['jobs', '-q'], ana)).stdout).toBe(id);
  expect((await cli(['jobs', '-q'], root)).stdout).toBe('');
  expect((await cli(['jobs'], root)).stderr).toMatch(
    /^No jobs on .*; other owners have 1 job, which --all lists\n$/,
  );
  expect((await cli(['jobs', '--all'], root)).stdout).toMatch(
    new RegExp(`^JOB +OWNER +STATUS.*\\n${id.trim()}  ana `),
  );
  const refused = await cli(['jobs', '--all'], ana);
  expect(refused.code, refused.stderr).toBe(4);
  expect(refused.stderr).toContain("Only an admin's token may list the jobs of all owners");
  const other = await cli(['status', id.trim()], root);
  expect(other.stdout).toMatch(/^Owner +ana$/m);
});
