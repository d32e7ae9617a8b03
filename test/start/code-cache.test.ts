import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Config } from '@oclif/core';
import { expect, test } from 'vitest';
import { until } from '../../support/until.mjs';
import { Cli } from '../support/cli.js';
import { TestServer } from '../support/server.js';
import { temporary } from '../support/temporary.js';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** A command line that shares no compiled code with other tests. */
async function createAlone(): Promise<Cli> {
  const cli = await Cli.create();
  rmSync(path.join(cli.home, '.cache'), { recursive: true, force: true });
  return cli;
}

/** The files that hold code, below the cache directory of this home. */
function storedCode(cli: Cli): string[] {
  const cache = path.join(cli.home, '.cache', 'remote-app');
  const files = readdirSync(cache, { recursive: true, withFileTypes: true });
  return files.filter((file) => file.isFile()).map((file) => path.join(file.parentPath, file.name));
}

test('the compiled code of a command is saved where only its user can write, and used again', async () => {
  await using cli = await createAlone();
  const first = await cli.run(['jobs', '--help']);
  expect([first.code, first.stderr]).toEqual([0, '']);

  const stored = storedCode(cli);
  expect(stored.length).toBeGreaterThan(0);
  for (const file of stored) expect(statSync(path.dirname(file)).mode & 0o022).toBe(0);
  const kept = stored.map((file) => statSync(file).ino);

  expect(await cli.run(['jobs', '--help'])).toEqual(first);
  expect(storedCode(cli).map((file) => statSync(file).ino)).toEqual(kept);
});

test('the code of a server is saved while it runs, so that one which is killed leaves it as well', async () => {
  await using root = await temporary();
  await using server = await TestServer.start({ environment: { XDG_CACHE_HOME: root.path } });
  const isCode = (name: string) => name.includes('serve') || name.includes('compile-cache');
  const stored = () => readdirSync(root.path, { recursive: true, encoding: 'utf8' }).filter(isCode);
  // A file that is complete gets another name meanwhile.
  const isFile = (name: string) =>
    statSync(path.join(root.path, name), { throwIfNoEntry: false })?.isFile() ?? false;
  await until('there is code', () => stored().some(isFile));
  await server.crash();
});

test('code that is damaged is not run', async () => {
  await using cli = await createAlone();
  const first = await cli.run(['jobs', '--help']);
  for (const file of storedCode(cli)) writeFileSync(file, Buffer.alloc(statSync(file).size, 'x'));
  expect(await cli.run(['jobs', '--help'])).toEqual(first);
});

test('code of a bundle that is gone is removed', async (context) => {
  await using cli = await createAlone();
  await cli.run(['jobs', '--help']);
  const [file] = storedCode(cli);
  if (file === undefined) throw new Error('no code was stored');
  // Newer versions of Node have a cache of their own.
  context.skip(file.includes('compile-cache'), 'this version of Node keeps the code itself');
  const old = path.join(path.dirname(file), 'base-gone.js-v20.19.0-x64');
  writeFileSync(old, '');
  writeFileSync(file, '');
  await cli.run(['jobs', '--help']);
  expect(storedCode(cli)).not.toContain(old);
});

test.each(['tyypo', '--foo'])('no code is saved for %s, which is not a command', async (word) => {
  await using cli = await createAlone();
  expect((await cli.run([word])).code).toBe(2);
  expect(existsSync(cli.home) ? readdirSync(cli.home, { recursive: true }) : []).not.toContainEqual(
    expect.stringContaining(word),
  );
});

test.each(['/dev/null', '/proc/x'])(
  'a cache directory that cannot be used changes nothing: %s',
  async (directory) => {
    await using cli = await createAlone();
    const plain = await cli.run(['jobs', '--help']);
    expect(await cli.run(['jobs', '--help'], { XDG_CACHE_HOME: directory })).toEqual(plain);
  },
);

test('--version prints the same line as oclif', async () => {
  await using cli = await createAlone();
  const { userAgent } = await Config.load(root);
  expect(await cli.run(['--version'])).toMatchObject({ code: 0, stdout: `${userAgent}\n`, stderr: '' });
});
