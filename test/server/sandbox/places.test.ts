import { realpathSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { blindSpots, findSandbox } from '../../../src/server/sandbox/find-sandbox.js';
import { problemOf } from '../../../src/server/sandbox/job-mounts.js';
import { linkedPackages, packagesAbove } from '../../../src/server/sandbox/program-places.js';
import { isWithin } from '../../../src/server/sandbox/visible-files.js';
import { list } from '../../support/list.mjs';
import { plant, temporary } from '../../support/temporary.js';

const root = await temporary();
afterAll(() => root[Symbol.asyncDispose]());
const at = (name: string) => path.join(realpathSync(root.path), name);

test('A job sees the packages above its app that the app depends on, as npm would install them', async () => {
  await plant(at('work'), {
    'node_modules/real/package.json': '{"name":"real"}',
    'node_modules/@lab/': '',
    'members/listed/package.json': '{"name":"@lab/listed","files":["lib","missing"]}',
    'members/listed/lib/a.js': '',
    'members/listed/secret': '',
    // It depends on a link in turn, which depends on it.
    'members/whole/package.json': '{"name":"whole","dependencies":{"inner":"1"}}',
    'members/inner/package.json': '{"name":"inner","files":["dist"],"dependencies":{"whole":"1"}}',
    'members/inner/dist/': '',
    'members/other/package.json': '{"name":"another"}',
    'members/broken/package.json': '[',
    'members/unnamed/package.json': '{"name":"unnamed"}',
    'members/node_modules/': '',
    'apps/app/package.json': JSON.stringify({
      dependencies: {
        real: '1',
        '@lab/listed': '1',
        whole: '1',
        other: '1',
        broken: '1',
        missing: '1',
        '../x': '1',
        '.': '1',
      },
    }),
    'apps/app/node_modules/': '',
    'apps/bare/': '',
    'apps/broken/package.json': '"text"',
  });
  symlinkSync('../../members/listed', at('work/node_modules/@lab/listed'));
  for (const name of ['whole', 'inner', 'other', 'broken', 'unnamed'])
    symlinkSync(`../members/${name}`, at(`work/node_modules/${name}`));
  const below = (places: readonly string[]) =>
    places.filter((each) => isWithin(at('work'), each)).map((each) => path.relative(at('work'), each));
  expect(below(packagesAbove(at('work/apps/app')))).toEqual(['node_modules']);
  expect(below(packagesAbove(at('work/apps/app/below')))).toEqual(['apps/app/node_modules', 'node_modules']);
  expect(below(linkedPackages(at('work/apps/app')))).toEqual(list`members/listed/package.json
    members/listed/lib members/node_modules node_modules members/whole/package.json members/whole
    members/node_modules node_modules members/inner/package.json members/inner/dist members/node_modules
    node_modules`);
  expect([linkedPackages(at('work/apps/bare')), linkedPackages(at('work/apps/broken'))]).toEqual([[], []]);
});

const end = { exitCode: 0, signal: null, stdout: '', stderr: '', endedFor: null };

test.for([
  [end, null],
  [{ ...end, exitCode: 1, stderr: 'first\nlast words\n' }, 'last words'],
  [{ ...end, exitCode: 3 }, 'exit code 3'],
  [{ ...end, exitCode: null, signal: 'SIGKILL' }, 'ended by SIGKILL'],
  [{ ...end, exitCode: null, signal: 'SIGKILL', endedFor: 'limit' }, 'no answer within 10 seconds'],
] as const)('A trial that ended as %j has the problem: %s', async ([trial, problem]) => {
  expect(await problemOf(Promise.resolve(trial as never))).toBe(problem);
});

test('Files that an admin exposes to jobs must exist, and must be unrelated to the data directory', async () => {
  await plant(at('server'), { 'data/jobs/a': '', 'models/a': '' });
  const refusal = (file: string, isWritable = false) =>
    findSandbox('auto', {
      binds: [{ path: file, isWritable }],
      dataDirectory: at('server/data'),
      secretFiles: [],
      environment: { PATH: '' },
    }).then(
      (found) => found,
      (cause: Error) => cause.message,
    );
  const shown = `the data directory ${at('server/data')} is there, and no job may see the files of others; name a directory beside it`;
  expect(await refusal(at('server'))).toBe(`--bind ${at('server')}: ${shown}`);
  expect(await refusal(at('server/data/jobs'), true)).toBe(`--bind-rw ${at('server/data/jobs')}: ${shown}`);
  expect(await refusal(at('none'))).toBe(`--bind ${at('none')}: there is no such file or directory`);
  expect(await refusal(at('server/models'))).toEqual({
    sandbox: null,
    problem: 'bwrap is not installed (Debian and Ubuntu: apt-get install bubblewrap)',
  });
});

test('Five links that jobs cannot follow are reported for an app, up to three directories deep', async () => {
  await plant(at('blind'), {
    'weights/a': '',
    'shown/a': '',
    'many/': '',
    'deep/1/2/3/': '',
    'deep/node_modules/': '',
  });
  const [many, deep] = [at('blind/many'), at('blind/deep')];
  for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) symlinkSync(at('blind/weights/a'), `${many}/${name}`);
  for (const name of ['1/2/seen', '1/2/3/too-deep', 'node_modules/package'])
    symlinkSync(at('blind/weights'), `${deep}/${name}`);
  symlinkSync(at('blind/shown/a'), `${deep}/bound`);
  symlinkSync('1', `${deep}/own`);
  symlinkSync('nowhere', `${deep}/dangling`);
  const told = blindSpots({
    environment: {
      HF_HOME: at('blind/weights'),
      TORCH_HOME: at('blind/none'),
      LANG: 'blind/weights',
      KONFAI_HOME: at('blind/shown'),
      LAB_HOME: at('blind/weights'),
      OTHER_HOME: at('blind/weights'),
    },
    binds: [{ path: at('blind/shown'), isWritable: false }],
    added: ['LAB_HOME'],
    apps: [many, deep].map((directory) => ({ directory, program: 'none' })),
    secrets: { secretFiles: [], dataDirectory: at('blind/data') },
  });
  expect(told.map((each) => each.replaceAll(at('blind/'), ''))).toEqual([
    'HF_HOME=weights',
    'LAB_HOME=weights',
    ...['a', 'b', 'c', 'd', 'e'].map((name) => `many/${name} leads to weights/a`),
    'deep/1/2/seen leads to weights',
  ]);
});
