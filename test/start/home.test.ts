import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { lacks } from '../support/needs.mjs';

/** A user without an entry in passwd. */
const nobody = ['setpriv', '--reuid', '4242424', '--clear-groups'];

const unreached = ['jobs', '--json', '--server', 'http://127.0.0.1:1', '--token', 'x'];

test.skipIf(lacks('root, and a checkout and a Node that other users can read'))(
  'A user without a home directory runs commands that need none',
  async () => {
    await using cli = await Cli.create();
    const homeless = { HOME: undefined, XDG_CONFIG_HOME: undefined };
    const { code, stdout, stderr } = await cli.runProcess(unreached, homeless, '', nobody);
    expect([code, JSON.parse(stdout)], stderr).toEqual([
      5,
      { error: expect.objectContaining({ exit_code: 5 }) },
    ]);
    const login = ['login', '--server', 'http://127.0.0.1:1'];
    const refused = await cli.runProcess(login, { ...homeless, HOME: '' }, '', nobody);
    expect(refused.code, refused.stderr).toBe(5);
    expect(refused.stderr).toMatch(/^Error: [^\n]*127\.0\.0\.1:1[^\n]*\n$/);
  },
);

test('No profile is read from the working directory or from /tmp, where anybody could put one', async () => {
  await using cli = await Cli.create();
  const shared = path.join(cli.directory, 'shared');
  for (const place of ['.config', 'shared/.config', 'home/.config']) {
    const directory = path.join(cli.directory, place, 'remote-app');
    mkdirSync(directory, { recursive: true });
    const profile = { server: 'http://127.0.0.1:2', token: 'planted' };
    writeFileSync(path.join(directory, 'profiles.json'), JSON.stringify({ profiles: { default: profile } }));
  }
  for (const HOME of ['', 'home']) {
    const env = { HOME, TMPDIR: shared, XDG_CONFIG_HOME: undefined, XDG_CACHE_HOME: cli.home };
    const { stderr } = await cli.runProcess(['jobs'], env);
    expect(stderr).not.toContain('127.0.0.1:2');
    expect(readdirSync(cli.directory).sort()).toEqual(['.config', 'home', 'shared']);
  }
});
