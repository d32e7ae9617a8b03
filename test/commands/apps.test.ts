import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { type Fake, fakeService } from '../support/fake-service.js';
import { ScreenTerminal } from '../support/screen-terminal.js';
import { json } from '../support/scripted-server.js';

const volume = (display_name: string) => ({
  display_name,
  volume_type: 'VOLUME',
  required: true,
  default: null,
});

const synthesis = {
  app: 'synthesis',
  available: true,
  display_name: 'Synthesis',
  description:
    'Makes a CT volume of an MR volume, by a network that was trained on the heads of three clinics.',
  short_description: 'CT of MR',
  checkpoints_name: ['CV_0.pt'],
  maximum_tta: 4,
  mc_dropout: 0,
  inputs: { Volume_0: volume('MR') },
  outputs: { Volume_1: volume('CT') },
  task: 'synthesis',
  vram_plan: { '96': 4.5, '128': 9 },
  licence: 'Apache-2.0',
  parameters: {
    values: { iterations: 300, metric: 'NCC', levels: { coarse: { step: 2 } }, ref: 'x' },
    constraints: {
      iterations: {
        min: 1,
        max: 1000,
        description: 'How often the optimizer goes over all voxels of the volume',
      },
      metric: { choices: ['NCC', 'MI'] },
    },
    path: 'Predictor.Model.Net',
  },
};

const bare = { app: 'bare', available: true, display_name: 'Bare' };

const fake: Fake = {
  apps: ['synthesis', 'bare', 'gone'],
  override: ({ url }, response) => {
    const view = { '/repo_apps/synthesis': synthesis, '/repo_apps/bare': bare }[url];
    if (view) json(response, 200, view);
    return view !== undefined;
  },
};

/** What a terminal of 80 columns shows. */
async function shown(...args: string[]): Promise<string[]> {
  await using cli = await Cli.create();
  await using server = await fakeService(fake);
  await using terminal = new ScreenTerminal(cli, [...args, '--server', server.url], {
    columns: 80,
    rows: 60,
  });
  expect(await terminal.ended()).toBe(0);
  expect(terminal.screen.wrapped).toEqual([]);
  return terminal.rows;
}

async function run(...args: string[]) {
  await using cli = await Cli.create();
  await using server = await fakeService(fake);
  return await cli.run([...args, '--server', server.url]);
}

describe('apps APP', () => {
  test('apps APP shows everything that the app states on a terminal, wrapped to its width', async () => {
    expect(await shown('apps', 'synthesis')).toEqual([
      'App                 synthesis',
      'Name                Synthesis',
      'About               Makes a CT volume of an MR volume, by a network that was',
      '                    trained on the heads of three clinics.',
      'Task                synthesis',
      'Inputs              MR (Volume_0, VOLUME)',
      'Outputs             CT (Volume_1, VOLUME)',
      'Checkpoints         CV_0.pt',
      'TTA at most         4',
      'MC dropout at most  0',
      'Memory plan         96: 4.5, 128: 9',
      '',
      'Parameters (--set NAME=VALUE) and their defaults:',
      '  iterations = 300  (1 to 1000)',
      '    How often the optimizer goes over all voxels of the volume',
      '  metric = NCC  (NCC | MI)',
      '  Predictor.Model.Net.levels.coarse.step = 2',
      '  ref = x',
    ]);
  });

  test('apps APP shows what the app cannot do, what it reads, and where it comes from', async () => {
    const view = {
      ...bare,
      description: '',
      short_description: 'Short,\n  and plain',
      inputs: { A: { ...volume(''), required: false }, B: volume('MR') },
      inputs_evaluations: { Dice: { 'a.yml': {}, 'b.yml': {} }, Mask: { 'c.yml': {} } },
      terminology: { 1: { name: 'liver', color: '#f00' }, 4: { name: 'spleen', color: '#0f0' } },
      checkpoints_name: ['a.pt', 'b.pt'],
      patch_size: [96, 128, 32],
      repository: {
        name: 'lab/app',
        revision: 'v2',
        commit: '0123456789abcdef0123',
        checked_at: null,
        problem: 'it could not be updated',
      },
      version: 'v1',
      parameters: {
        values: { nine: 'a', eight: 'a', zero: 0, none: 1 },
        constraints: {
          nine: { choices: [...'abcdefghi'] },
          eight: { choices: [...'abcdefgh'], min: 1 },
          zero: { min: 0, max: 9 },
          none: { choices: [], description: '' },
        },
      },
    };
    await using cli = await Cli.create();
    await using server = await fakeService({
      override: (_, response) => {
        json(response, 200, view);
        return true;
      },
    });
    const { stdout, stderr } = await cli.run(['apps', 'bare', '--server', server.url]);
    expect(stderr).toBe('');
    expect(stdout.split('\n')).toEqual([
      'App          bare',
      'Name         Bare',
      'About        Short, and plain',
      'Inputs       A (VOLUME, optional), MR (B, VOLUME)',
      'Labels       1 liver, 4 spleen',
      'Evaluations  Dice (a.yml), Dice (b.yml), Mask (c.yml)',
      'Checkpoints  a.pt, b.pt',
      'Patch size   96 x 128 x 32',
      'Version      v1',
      'Repository   lab/app, v2, at commit 0123456789ab',
      'Not updated  it could not be updated',
      '',
      'Parameters (--set NAME=VALUE) and their defaults:',
      '  nine = a  (one of 9)',
      '  eight = a  (a | b | c | d | e | f | g | h)',
      '  zero = 0  (0 to 9)',
      '  none = 1',
      '',
    ]);
  });

  test('apps APP adds nothing to an app that states nothing', async () => {
    expect(await shown('apps', 'bare')).toEqual(['App   bare', 'Name  Bare']);
  });

  test.each([
    [
      { iterations: { default: 300, min: 1 }, mode: 'fast' },
      ['  iterations = 300  (at least 1)', '  mode = fast'],
    ],
    ['many', []],
  ])('apps APP accepts %j as an app may write it', async (parameters, lines) => {
    await using cli = await Cli.create();
    await using server = await fakeService({
      override: (_, response) => {
        json(response, 200, { ...bare, parameters });
        return true;
      },
    });
    const { code, stdout } = await cli.run(['apps', 'bare', '--server', server.url]);
    expect([code, stdout.split('\n').filter((line) => line.startsWith('  '))]).toEqual([0, lines]);
  });

  test('--json shows everything, including unknown fields', async () => {
    const { code, stdout } = await run('apps', 'synthesis', '--json');
    expect([code, JSON.parse(stdout)]).toEqual([0, expect.objectContaining(synthesis)]);
  });
});

describe('apps', () => {
  test('On a terminal, apps shows what each app is', async () => {
    expect(await shown('apps')).toEqual(['synthesis  Synthesis: CT of MR', 'bare       Bare', 'gone']);
  });

  test('apps shows which apps are loaded, and why one is not available', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({
      override: ({ url }, response) => {
        const answer = {
          '/repo_apps_list': { apps: ['a', 'broken', 'b'], loaded: ['b'] },
          '/repo_apps/b': { ...bare, short_description: ' Two\n words ' },
          '/repo_apps/broken': { app: 'broken', available: false, reason: 'its app.json is not JSON' },
          '/repo_apps/a': { app: 'a', available: false },
        }[url];
        if (answer) json(response, 200, answer);
        return answer !== undefined;
      },
    });
    await using terminal = new ScreenTerminal(cli, ['apps', '--server', server.url], {
      columns: 80,
      rows: 9,
    });
    await terminal.ended();
    expect(terminal.rows).toEqual([
      'a       not available: its files cannot be read',
      'broken  not available: its app.json is not JSON',
      'b       loaded; Bare: Two words',
    ]);
    const { code, stdout } = await cli.run(['apps', 'a', '--server', server.url]);
    expect([code, stdout]).toEqual([0, 'a is not available: its files cannot be read\n']);
  });

  test('Without a terminal, apps prints only the identifiers, for scripts to read', async () => {
    expect((await run('apps')).stdout).toBe('synthesis\nbare\ngone\n');
  });
});

test('An app that the server does not have is refused with a list of its apps', async () => {
  await using cli = await Cli.create();
  await using server = await fakeService({
    apps: ['synthesis', 'bare'],
    override: ({ url }, response) => {
      const isApp = /^.repo_apps(_config)?./.test(url) && !url.startsWith('/repo_apps_list');
      if (isApp) json(response, 404, { detail: `Unknown app '${url.split('/')[2]}'` });
      return isApp;
    },
  });
  const sentenceOf = async (...words: string[]) =>
    (await cli.run(['apps', ...words, '--server', server.url])).stderr.trim();
  expect(await sentenceOf('syntesis')).toBe("Error: Unknown app 'syntesis'; did you mean 'synthesis'?");
  expect(await sentenceOf('head', '--config', 'Config')).toBe(
    "Error: Unknown app 'head'; the server has: synthesis, bare",
  );
});
