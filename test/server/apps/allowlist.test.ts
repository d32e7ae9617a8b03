import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { Cli } from '../../support/cli.js';
import { withOwnEnvironment } from '../../support/own-environment.js';
import { apps, TestServer } from '../../support/server.js';

const root = mkdtempSync(path.join(tmpdir(), 'remote-app-test-'));
afterAll(() => rmSync(root, { recursive: true }));
const shelf = path.join(root, 'shelf');
for (const name of ['one', 'two', 'more/deep'])
  cpSync(apps.shell, path.join(shelf, name), { recursive: true });
mkdirSync(path.join(shelf, 'empty'));
writeFileSync(path.join(shelf, 'README'), 'no app');

let lists = 0;

/** A JSON file with this content. */
function list(content: unknown): string {
  lists += 1;
  const file = path.join(root, `apps-${lists}.json`);
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  return file;
}

async function idsOf(...sources: string[]): Promise<unknown> {
  await using server = await TestServer.start({ apps: sources });
  return (await server.api.json('/repo_apps_list')).apps;
}

describe('serve --apps', () => {
  test('serve --apps takes an app directory, named after the directory, and a directory of app directories', async () => {
    expect(await idsOf(apps.probe, shelf)).toEqual(['probe', 'one', 'two']);
  });

  test('serve --apps takes a JSON file with identifiers as strings, and with named entries', async () => {
    const one = path.join(shelf, 'one');
    const entries = [one, 'VBoussot/ImpactSynth:MR', { name: 'second', source: './shelf/two' }];
    expect(await idsOf(list({ apps: entries }))).toEqual([one, 'VBoussot/ImpactSynth:MR', 'second']);
  });

  test('serve --apps takes a JSON file with a directory of app directories', async () => {
    expect(await idsOf(list({ apps: ['./shelf'] }))).toEqual(['one', 'two']);
  });

  test('serve --apps takes a repository id', async () => {
    expect(await idsOf('owner/name', 'owner/name:variant')).toEqual(['owner/name', 'owner/name:variant']);
  });

  test('serve --apps takes an app of a repository at a revision', async () => {
    const sources = ['owner/name@v1.0:app', list({ apps: [{ name: 'pinned', source: 'a/b@main:c' }] })];
    expect(await idsOf(...sources)).toEqual(['owner/name@v1.0:app', 'pinned']);
  });

  test('serve --apps takes ~ for the home directory, as a shell does, and an existing path with an @', async () => {
    const home = path.join(root, 'home');
    for (const name of ['apps/mine', 'tiny@1.2'])
      cpSync(apps.shell, path.join(home, name), { recursive: true });
    const entries = list({ apps: ['~/apps/mine', { name: 'named', source: '~/tiny@1.2' }] });
    const at = path.join(home, 'tiny@1.2');
    // The home directory is that of the process.
    await withOwnEnvironment(process.cwd(), { ...process.env, HOME: home }, async () => {
      await using server = await TestServer.start({ apps: ['~/apps', at, entries] });
      expect((await server.api.json('/repo_apps_list')).apps).toEqual([
        'mine',
        'tiny@1.2',
        '~/apps/mine',
        'named',
      ]);
      for (const app of ['~/apps/mine', 'tiny@1.2'])
        expect(await server.api.json(`/repo_apps/${encodeURIComponent(app)}`), app).toMatchObject({
          available: true,
        });
    });
  });

  test('serve --apps may be left out: serve says that no app can be run', async () => {
    await using server = await TestServer.start({ apps: [] });
    expect(await server.api.json('/repo_apps_list')).toEqual({ apps: [] });
    expect(server.stderr).toContain('--apps');
  });

  test('serve --apps may have a directory without apps beside others, which is reported', async () => {
    const empty = path.join(shelf, 'empty');
    await using server = await TestServer.start({ apps: [empty, path.join(shelf, 'one')] });
    expect(server.stderr).toContain(
      `${empty}: neither this directory nor one directly in it has an app.json`,
    );
    expect(await server.api.json('/repo_apps_list')).toEqual({ apps: ['one'] });
    expect(server.stderr).not.toMatch(/^\s+at /m);
  });

  test.for([
    [
      'one app twice',
      [apps.probe, apps.probe],
      /'probe' is given twice with --apps: \/\S+\/probe; give it once/,
    ],
    [
      'two apps of one name',
      [shelf, list({ apps: [{ name: 'two', source: './shelf/one' }] })],
      /'two': .*\/two and /,
    ],
    [
      'one name in a list and beside it',
      [path.join(shelf, 'one'), list({ apps: [{ name: 'one', source: 'a/b' }] })],
      /'one'/,
    ],
    ['a path that is not there', ['./nowhere'], /nowhere/],
    ['what is no repository either', ['nowhere'], /nowhere/],
    ['a home directory of somebody else', ['~nobody/apps'], /only '~\/' stands for a home directory/],
    ['a path below the home directory that is not there', ['~/nowhere'], /there is no directory .*nowhere/],
    ['a revision that leads elsewhere', ['a/b@../../x:c'], /nor an app of a repository/],
    ['a name that would be a flag of the engine', ['-a/b:c'], /nor an app of a repository/],
    ['a directory without apps', [path.join(shelf, 'empty')], /app\.json/],
    ['a file that is no JSON', [list('apps: []')], /JSON/],
    ['a file of another shape', [list(['probe'])], /apps/],
    ['an entry without a name', [list({ apps: [{ source: 'a/b' }] })], /apps/],
    ['an empty entry', [list({ apps: [''] })], /apps/],
    ['an entry that leads nowhere', [list({ apps: [{ name: 'x', source: '/nowhere/x' }] })], /nowhere/],
  ] as [string, string[], RegExp][])('serve --apps is refused at start: %s', async ([, sources, reason]) => {
    await using cli = await Cli.create();
    const flags = sources.flatMap((source) => ['--apps', source]);
    expect(await cli.refusedStart(['serve', '--port', '0', '--data-dir', 'data', ...flags])).toMatch(reason);
  });
});
