import { chmod, readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { Cli } from '../support/cli.js';
import { list } from '../support/list.mjs';
import { lacks } from '../support/needs.mjs';
import { checkpoint, written } from '../support/nnunet-folder.js';
import { smallDisk } from '../support/small-disk.js';
import { plant } from '../support/temporary.js';
import { facts, networkOf, weightsOf } from '../support/totalsegmentator-weights.js';

const json = async (...parts: readonly string[]) => JSON.parse(await readFile(path.join(...parts), 'utf8'));

/** A command in a directory with the weights of these networks. */
async function withWeights(ids: readonly number[], directory = 'weights') {
  const cli = await Cli.create();
  await plant(cli.directory, weightsOf(directory, ids));
  return cli;
}

const words = (...more: readonly string[]) => ['init', 'organs', '--from', 'totalsegmentator', ...more];

const checkpointOf = (id: number) => `${networkOf(id)}/fold_0/checkpoint_final.pth`;

const licence = '{"license_number": "aca_12345678901234"}';

describe('init --from totalsegmentator', () => {
  const total = [291, 292, 293, 294, 295, 297];

  test('init --from totalsegmentator writes an app of the task with names, colours and codes, and leaves the weights unchanged', async () => {
    await using cli = await withWeights(total);
    const file = path.join(cli.directory, 'weights', checkpointOf(293));
    const before = await stat(file);
    const { code, stdout, stderr } = await cli.run(words('--task', 'total', '--weights', 'weights'));
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toContain('task.json, .totalsegmentator/, resident.py');
    expect(stdout).toContain('The weights are linked.');

    const app = path.join(cli.directory, 'organs');
    const manifest = await json(app, 'app.json');
    expect(manifest).toMatchObject({
      display_name: 'organs',
      citation: [
        { doi: '10.1148/ryai.230024', licence: 'Apache-2.0' },
        { doi: '10.1038/s41592-020-01008-z' },
      ],
      description:
        'The task total of TotalSegmentator 2.18.0, in CT: 117 labels. The weights are openly available. Not a medical device.',
      command: ['python3', 'main.py'],
      resident: true,
      models: [],
      parameters: { fast: { default: false } },
      inputs: { Scan: { display_name: 'CT', volume_type: 'VOLUME', required: true, unit: 'HU' } },
      ...written,
    });
    expect(Object.keys(manifest.terminology)).toHaveLength(117);
    expect(manifest.terminology).toMatchObject({
      5: { name: 'liver', color: '#288c28', snomed: { code: '10200004', meaning: 'Liver' } },
      // No anatomical structure, whose code would be one of anatomy.
      23: { name: 'kidney_cyst_left', color: '#53afdd' },
      117: { name: 'costal_cartilages' },
    });
    expect(manifest.terminology[23]).not.toHaveProperty('snomed');
    z.fromJSONSchema(await json(app, 'app.schema.json')).parse(manifest);

    const readme = await readFile(path.join(app, 'README.md'), 'utf8');
    for (const line of [
      'The task `total` of TotalSegmentator (Wasserthal et al., https://doi.org/10.1148/ryai.230024), for CT: 117 labels.\n',
      'The weights of this task are openly available.',
      '    remote-app infer ./scans --gpu 0 --set fast=true ',
      `- \`weights/\` has \`${networkOf(291).split('/')[0]}\`, \`Dataset292_`,
    ])
      expect(readme).toContain(line);

    expect(await json(app, '.totalsegmentator/config.json')).toEqual({
      totalseg_id: '',
      send_usage_stats: false,
      prediction_counter: 0,
      statistics_disclaimer_shown: true,
    });
    const { task, networks } = await json(app, 'task.json');
    expect(task).toBe('total');
    expect(networks.fast).toEqual([
      {
        id: 297,
        folder: 'Dataset297_TotalSegmentator_total_3mm_1559subj',
        url: 'https://github.com/wasserth/TotalSegmentator/releases/download/v2.0.0-weights/Dataset297_TotalSegmentator_total_3mm_1559subj.zip',
        files: ['dataset.json', 'plans.json', 'fold_0/checkpoint_final.pth'].map(
          (name) => `${networkOf(297)}/${name}`,
        ),
      },
    ]);
    expect((await stat(path.join(app, 'weights', checkpointOf(293)))).ino).toBe(before.ino);
    const { mtimeMs, size, mode } = await stat(file);
    expect([mtimeMs, size, mode]).toEqual([before.mtimeMs, before.size, before.mode]);
    expect((await readdir(app)).sort()).toEqual(list`.totalsegmentator Evaluation.yml README.md app.json
      app.schema.json cases.py evaluation.py main.py requirements.txt resident.py task.json weights`);
  });

  test('init --from totalsegmentator includes the networks that a task crops with, and copies them with --copy', async () => {
    await using cli = await withWeights([852, 576]);
    const copied = await cli.run(
      words('--task', 'liver_segments_mr', '--weights', 'weights', '--copy', '--json'),
    );
    expect(copied.code).toBe(0);
    expect(JSON.parse(copied.stdout).model).toEqual({
      kind: 'totalsegmentator',
      source: path.join(cli.directory, 'weights'),
      weights: 'copied',
      missing: [],
      notes: [],
    });
    expect(await json(cli.directory, 'organs/app.json')).toMatchObject({
      parameters: {},
      inputs: { Scan: { display_name: 'MR', volume_type: 'VOLUME', required: true } },
      terminology: { 8: { name: 'liver_segment_8' } },
    });
    for (const id of [852, 576]) {
      const copy = path.join(cli.directory, 'organs/weights', checkpointOf(id));
      expect((await stat(copy)).nlink).toBe(1);
      expect(await readFile(copy)).toEqual(checkpoint);
    }
  });

  test('init --from totalsegmentator finds the weights where TotalSegmentator keeps them', async () => {
    for (const [place, environment] of [
      ['.totalsegmentator/nnunet/results', {}],
      ['other/nnunet/results', { TOTALSEG_HOME_DIR: 'other' }],
      ['named', { TOTALSEG_WEIGHTS_PATH: 'named' }],
    ] as const) {
      await using cli = await Cli.create();
      await plant(cli.home, weightsOf(place, [299, 300]));
      const env = Object.fromEntries(
        Object.entries(environment).map(([name, value]) => [name, path.join(cli.home, value)]),
      );
      const { code, stdout } = await cli.run(words('--task', 'body', '--json'), env);
      expect(code).toBe(0);
      expect(JSON.parse(stdout).model).toMatchObject({
        source: path.join(cli.home, place),
        weights: 'linked',
      });
    }
  });

  test('init --from totalsegmentator accepts the home of TotalSegmentator as --weights, and says what is missing there', async () => {
    await using cli = await withWeights([297], 'home/nnunet/results');
    const { code, stdout } = await cli.run(words('--weights', 'home'));
    expect(code, stdout).toBe(0);
    expect(stdout).toMatch(
      /Note: Dataset291_\w+, .*Dataset295_\w+ of the task are not in .*'main\.py fetch'/,
    );
    expect(await readdir(path.join(cli.directory, 'organs/weights'))).toEqual([
      'Dataset297_TotalSegmentator_total_3mm_1559subj',
    ]);
  });

  test('init --from totalsegmentator without weights writes the app, and says what downloads them', async () => {
    await using cli = await Cli.create();
    const { code, stdout } = await cli.run(words('--task', 'body'));
    expect(code, stdout).toBe(0);
    expect(stdout).toContain(
      "The weights Dataset299_body_1559subj, Dataset300_body_6mm_1559subj are missing: 'python3 main.py fetch' in organs downloads them.",
    );
    expect(await readdir(path.join(cli.directory, 'organs'))).not.toContain('weights');
  });

  test('init --from totalsegmentator uses all folds of a network that was trained in several', async () => {
    await using cli = await withWeights([298, 315]);
    await plant(cli.directory, { [`weights/${networkOf(315)}/fold_all/checkpoint_final.pth`]: checkpoint });
    expect((await cli.run(words('--task', 'pleural_pericard_effusion', '--weights', 'weights'))).code).toBe(
      0,
    );
    const place = path.join(cli.directory, 'organs/weights', networkOf(315));
    const folds = ['fold_0', 'fold_1', 'fold_all'];
    expect((await readdir(place)).sort()).toEqual(['dataset.json', ...folds, 'plans.json']);
  });

  const disk = smallDisk(1);
  test.skipIf(disk === null)(
    'init --from totalsegmentator leaves nothing behind on a full disk',
    async () => {
      const large = Buffer.concat([
        checkpoint.subarray(0, 4),
        Buffer.alloc(2 << 20),
        checkpoint.subarray(-22),
      ]);
      await using cli = await withWeights([299, 300]);
      await plant(cli.directory, { [`weights/${checkpointOf(300)}`]: large });
      const target = path.join(disk ?? '', 'organs');
      const { code } = await cli.run([
        ...['init', target, '--from', 'totalsegmentator', '--task', 'body', '--weights', 'weights'],
      ]);
      expect([code, await readdir(target)]).toEqual([1, []]);
    },
  );

  test('init --from totalsegmentator makes an app of every task of the table', async () => {
    await using cli = await Cli.create();
    await plant(cli.home, { '.totalsegmentator/config.json': licence });
    for (const [task, { fast }] of Object.entries(facts.tasks)) {
      const { code, stderr } = await cli.run(['init', task, '--from', 'totalsegmentator', '--task', task]);
      expect([task, code, stderr]).toEqual([task, 0, '']);
      const manifest = await json(cli.directory, task, 'app.json');
      z.fromJSONSchema(await json(cli.directory, task, 'app.schema.json')).parse(manifest);
      expect(Object.keys(manifest.parameters)).toEqual(fast ? ['fast'] : []);
    }
  });

  test('init --from totalsegmentator stores the licence number that a task needs where no client can download it', async () => {
    await using cli = await Cli.create();
    const refused = await cli.run(words('--task', 'face'));
    expect(refused.code, refused.stderr).toBe(2);
    expect(refused.stderr).toMatch(
      /task 'face' needs a licence.*has no licence number.*license-academic\/, and run 'totalseg_set_license -l NUMBER'/,
    );
    await plant(cli.home, { '.totalsegmentator/config.json': licence });
    expect((await cli.run(words('--task', 'face'))).code).toBe(0);
    const app = path.join(cli.directory, 'organs');
    expect(await json(app, '.totalsegmentator/config.json')).toMatchObject({
      send_usage_stats: false,
      license_number: 'aca_12345678901234',
    });
    for (const name of ['app.json', 'task.json', 'README.md'])
      expect(await readFile(path.join(app, name), 'utf8')).not.toContain('aca_12345678901234');
    expect(await readFile(path.join(app, 'README.md'), 'utf8')).toContain('non-commercial use');
  });

  const body = weightsOf('weights', [299, 300]);
  const weights = ['--task', 'body', '--weights', 'weights'];
  const broken: readonly (readonly [
    string,
    readonly string[],
    Readonly<Record<string, string | Buffer>>,
    RegExp,
  ])[] = [
    ['a task with a slip', ['--task', 'totl'], {}, /no task 'totl'; did you mean 'total'/],
    ['a part of a task', ['--task', 'vertebrae'], {}, /did you mean 'vertebrae_mr' or 'vertebrae_pp' or/],
    [
      'no task at all',
      ['--task', 'constructor'],
      {},
      /no task 'constructor'; there are total, total_v3, body,/,
    ],
    ['no folder of weights', weights, {}, /weights' is not a folder with weights/],
    [
      'weights of another task',
      ['--task', 'total', '--weights', 'weights'],
      body,
      /lacks weights of the task 'total': Dataset291_\w+, .*leave --weights out/,
    ],
    [
      'weights that are cut',
      weights,
      { ...body, [`weights/${checkpointOf(299)}`]: checkpoint.subarray(0, 60) },
      /Dataset299\S+ cannot be used: its end is missing.*downloads it again/,
    ],
    [
      'a folder of a network',
      ['weights'],
      body,
      /takes no weights: name a task with --task, or a folder of weights/,
    ],
    ['another language', [...weights, '--language', 'shell'], body, /leave --language out/],
  ];

  for (const [what, more, files, sentence] of broken)
    test(`init --from totalsegmentator refuses ${what} in one sentence, and writes nothing`, async () => {
      await using cli = await Cli.create();
      await plant(cli.directory, files);
      const { code, stdout, stderr } = await cli.run(words(...more));
      expect([code, stdout, stderr]).toEqual([2, '', expect.stringMatching(sentence)]);
      expect(stderr.trim().split('\n')).toHaveLength(1);
      expect(await readdir(cli.directory)).not.toContain('organs');
    });

  for (const [what, config, sentence] of [
    ['settings that are cut', '{"license', /config\.json' cannot be read: it is not JSON/],
    ['a number that is none', '{"license_number": "aca_1"}', /has a licence number that is none/],
  ] as const)
    test(`init --from totalsegmentator refuses ${what} for a task that needs a licence`, async () => {
      await using cli = await Cli.create();
      await plant(cli.home, { '.totalsegmentator/config.json': config });
      const { code, stderr } = await cli.run(words('--task', 'tissue_types'));
      expect([code, stderr]).toEqual([2, expect.stringMatching(sentence)]);
    });

  test('init --from totalsegmentator refuses its flags for other networks', async () => {
    await using cli = await Cli.create();
    for (const [more, sentence] of [
      [['--from', 'nnunet', 'folder', '--task', 'total'], '--task is for --from totalsegmentator'],
      [['--from', 'nnunet', 'folder', '--weights', 'w'], '--weights is for --from totalsegmentator'],
      [['--task', 'total'], '--from'],
    ] as const) {
      const { code, stderr } = await cli.run(['init', 'organs', ...more]);
      expect([code, stderr]).toEqual([2, expect.stringContaining(sentence)]);
    }
  });
});

/** Stands in for Python: makes an environment, notes what it is told, and fails at what `$HOME/broken` says. */
const standIn = `#!/bin/sh
if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; exit; fi
echo "$PWD $*" >> "$HOME/told"
case "$*" in *"$(cat "$HOME/broken" 2>/dev/null || echo nothing)"*)
  echo "Downloading model for Task 299 ..."; echo "Dataset299 is not in weights: unpack it there" >&2; exit 1;;
esac
`;

describe('init --from totalsegmentator --venv', () => {
  async function withPython() {
    const cli = await Cli.create();
    await plant(cli.home, { 'bin/python3': standIn });
    await chmod(path.join(cli.home, 'bin/python3'), 0o755);
    return { cli, env: { PATH: `${path.join(cli.home, 'bin')}:${process.env.PATH}` } };
  }
  const told = async (cli: Cli) => readFile(path.join(cli.home, 'told'), 'utf8');

  test('init --from totalsegmentator --venv downloads the weights that are missing, in the environment of the app', async () => {
    const { cli, env } = await withPython();
    await using _ = cli;
    const { code, stdout } = await cli.run(words('--task', 'body', '--venv', '--json'), env);
    expect(code).toBe(0);
    expect(JSON.parse(stdout).model).toMatchObject({ weights: 'fetched', missing: [], source: null });
    expect(await told(cli)).toMatch(
      /install --only-binary :all: --no-binary acvl-utils -r requirements\.txt\n\S+\/organs main\.py fetch\n$/,
    );
  });

  test('init --from totalsegmentator --venv downloads nothing if all weights are present', async () => {
    const { cli, env } = await withPython();
    await using _ = cli;
    await plant(cli.directory, weightsOf('weights', [299, 300]));
    expect((await cli.run(words('--task', 'body', '--weights', 'weights', '--venv'), env)).code).toBe(0);
    expect(await told(cli)).not.toContain('fetch');
  });

  test('init --from totalsegmentator --venv says which weights could not be downloaded, and the command that does it', async () => {
    const { cli, env } = await withPython();
    await using _ = cli;
    await plant(cli.home, { broken: 'fetch' });
    const { code, stderr } = await cli.run(words('--task', 'body', '--venv'), env);
    expect(code, stderr).toBe(1);
    expect(stderr).toMatch(
      /The app is written, and its weights are not all there: .* exit code 1: Dataset299 is not in weights: unpack it there; run 'venv\/bin\/python main\.py fetch' in .*organs/,
    );
  });
});

describe('check of a TotalSegmentator app', () => {
  test.skipIf(lacks('python3'))('check names missing weights and packages, and how to get them', async () => {
    await using cli = await Cli.create();
    await cli.run(words('--task', 'body'));
    const { code, stdout } = await cli.run(['check', 'organs']);
    expect(code).toBe(1);
    expect(stdout).toMatch(/not installed for .*python.*: .*TotalSegmentator/);
    expect(stdout).toMatch(
      /The weights Dataset299_body_1559subj are missing in \S+: run '\S*python3? main\.py fetch' in/,
    );
  });
});
