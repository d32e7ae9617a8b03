import { execFileSync } from 'node:child_process';
import { chmod, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { Cli } from '../support/cli.js';
import { list } from '../support/list.mjs';
import { lacks } from '../support/needs.mjs';
import { checkpoint, dataset, nnunetFolder, plans, resultsName, written } from '../support/nnunet-folder.js';
import { ScreenTerminal } from '../support/screen-terminal.js';
import { smallDisk } from '../support/small-disk.js';
import { plant } from '../support/temporary.js';

const json = async (...parts: readonly string[]) => JSON.parse(await readFile(path.join(...parts), 'utf8'));

/** A command in a directory with a results folder, and what is different about it; null is a file that is not there. */
async function withFolder(
  changes: Readonly<Record<string, string | Buffer | null>> = {},
  name = resultsName,
) {
  const cli = await Cli.create();
  const files = Object.entries({ ...nnunetFolder(name), ...changes });
  await plant(
    cli.directory,
    Object.fromEntries(files.flatMap(([file, content]) => (content === null ? [] : [[file, content]]))),
  );
  return cli;
}

const init = (cli: Cli, ...more: readonly string[]) =>
  cli.run(['init', 'liver', '--from', 'nnunet', resultsName, ...more]);

const changed = (of: object, changes: object) => JSON.stringify({ ...of, ...changes });

describe('init --from nnunet', () => {
  test('init --from nnunet writes an app that matches the folder, and leaves the folder unchanged', async () => {
    await using cli = await withFolder();
    const weights = path.join(cli.directory, resultsName, 'fold_0/checkpoint_final.pth');
    const before = await stat(weights);
    const { code, stdout, stderr } = await init(cli);
    expect([code, stderr]).toEqual([0, '']);
    const app = path.join(cli.directory, 'liver');
    expect(stdout.split('\n').slice(0, 3)).toEqual([
      `Wrote app.json, main.py, cases.py, evaluation.py, requirements.txt, Evaluation.yml, Uncertainty.yml, resident.py, app.schema.json, README.md, model/ in ${app}`,
      'The weights are linked.',
      "Its Python is 'python3' of the PATH, which needs requirements.txt; init --venv makes one for this app. What to do next:",
    ]);

    const manifest = await json(app, 'app.json');
    expect(manifest).toEqual({
      citation: [expect.objectContaining({ doi: '10.1038/s41592-020-01008-z' })],
      $schema: './app.schema.json',
      display_name: 'liver',
      short_description: 'Segments liver, tumour',
      description:
        'Liver and tumours in CT. A network of nnU-Net v2 (3d_fullres, nnUNetTrainer, 2 folds). Licence: CC-BY-SA 4.0.',
      command: ['python3', 'main.py'],
      resident: true,
      tta: 7,
      mc_dropout: 0,
      models: ['fold_0.pth', 'fold_1.pth'],
      patch_size: [128, 112, 96],
      parameters: {
        step_size: { default: 0.5, min: 0.1, max: 1, description: expect.stringMatching(/^Step from one/) },
      },
      inputs: { Channel_0: { display_name: 'CT', volume_type: 'VOLUME', required: true, unit: 'HU' } },
      ...written,
      terminology: { 1: { name: 'liver', color: '#d66851' }, 2: { name: 'tumour', color: '#2bb66a' } },
    });
    const readme = await readFile(path.join(app, 'README.md'), 'utf8');
    for (const line of [
      `A network of nnU-Net v2, from \`${path.join(cli.directory, resultsName)}\`.`,
      '    remote-app infer ./scans      # CT\n',
      '    remote-app infer ./scans --tta 7 --ensemble 2      # what nnUNetv2_predict does by itself\n',
      'takes the first N of fold_0.pth, fold_1.pth;',
      ' `--tta 7` mirrors all axes;',
      'end with `.nii.gz`.',
    ])
      expect(readme).toContain(line);
    z.fromJSONSchema(await json(app, 'app.schema.json')).parse(manifest);

    expect(await json(app, 'model/plans.json')).toEqual(plans);
    expect((await stat(path.join(app, 'model/fold_0.pth'))).ino).toBe(before.ino);
    const { mtimeMs, size, mode } = await stat(weights);
    expect([mtimeMs, size, mode]).toEqual([before.mtimeMs, before.size, before.mode]);
    expect((await readdir(path.join(cli.directory, resultsName))).sort()).toEqual(list`dataset.json
      fold_0 fold_1 plans.json`);
    expect((await readdir(app, { recursive: true })).sort()).toEqual(list`Evaluation.yml README.md
      Uncertainty.yml app.json app.schema.json cases.py evaluation.py main.py model model/dataset.json
      model/fold_0.pth model/fold_1.pth model/plans.json requirements.txt resident.py`);
  });

  test('init --from nnunet copies the weights with --copy, and --json says which ones and what was left out', async () => {
    await using cli = await withFolder({
      [`${resultsName}/fold_2/checkpoint_latest.pth`]: checkpoint,
      [`${resultsName}/fold_all/checkpoint_final.pth`]: checkpoint,
    });
    const { code, stdout } = await init(cli, '--copy', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout).model).toEqual({
      kind: 'nnunet',
      source: path.join(cli.directory, resultsName),
      weights: 'copied',
      missing: [],
      notes: [
        'fold_2 is left out: it has no checkpoint_final.pth',
        'fold_all is left out, as nnU-Net leaves it out beside other folds',
      ],
    });
    const copy = path.join(cli.directory, 'liver/model/fold_0.pth');
    expect((await stat(copy)).nlink).toBe(1);
    expect(await readFile(copy)).toEqual(checkpoint);
  });

  for (const named of ['results', 'results/Dataset003_Liver'])
    test(`init --from nnunet uses the only network in ${named}, and names it`, async () => {
      await using cli = await withFolder({}, `results/Dataset003_Liver/${resultsName}`);
      const { code, stdout } = await cli.run(['init', 'liver', '--from', 'nnunet', named]);
      expect(code).toBe(0);
      expect(stdout).toMatch(/The network is \S*nnUNetTrainer__nnUNetPlans__3d_fullres, the only one in '/);
      expect(await json(cli.directory, 'liver/model/plans.json')).toEqual(plans);
    });

  test('init --from nnunet links the target of a link inside the folder, and refuses a link that leads outside', async () => {
    await using cli = await withFolder({ [`${resultsName}/fold_0/checkpoint_final.pth`]: null });
    await plant(cli.directory, {
      [`${resultsName}/store/weights`]: checkpoint,
      // Its path begins like that of the folder.
      [`${resultsName}_other/weights`]: checkpoint,
    });
    const link = path.join(cli.directory, resultsName, 'fold_0', 'checkpoint_final.pth');
    await mkdir(path.dirname(link), { recursive: true });
    await symlink(`../../${resultsName}_other/weights`, link);
    const { code, stderr } = await init(cli);
    expect(code, stderr).toBe(2);
    expect(stderr).toMatch(
      /checkpoint_final\.pth' is a link that leads out of .*, to '.*_other\/weights': .* put a copy/,
    );
    expect(await readdir(cli.directory)).not.toContain('liver');
    await rm(link);
    await symlink('../store/weights', link);
    expect((await init(cli)).code).toBe(0);
    const inode = async (file: string) => (await stat(path.join(cli.directory, file))).ino;
    expect(await inode('liver/model/fold_0.pth')).toBe(await inode(`${resultsName}/store/weights`));
  });

  test('init --from nnunet orders several channels by number, and regions by regions_class_order', async () => {
    await using cli = await withFolder({
      [`${resultsName}/dataset.json`]: changed(dataset, {
        channel_names: { 1: 'FLAIR', 0: 'T1' },
        labels: { background: 0, whole: [1, 2, 3], core: [2, 3], enhancing: 3, ignore: 4 },
        regions_class_order: [1, 2, 3],
      }),
    });
    expect((await init(cli)).code).toBe(0);
    const { inputs, terminology } = await json(cli.directory, 'liver/app.json');
    expect(
      Object.entries<{ display_name: string }>(inputs).map(([key, each]) => [key, each.display_name]),
    ).toEqual([
      ['Channel_0', 'T1'],
      ['Channel_1', 'FLAIR'],
    ]);
    expect(terminology).toMatchObject({
      1: { name: 'whole', values: [1, 2, 3] },
      2: { name: 'core', values: [2, 3] },
      3: { name: 'enhancing', values: [3] },
    });
    const readme = await readFile(path.join(cli.directory, 'liver/README.md'), 'utf8');
    expect(readme.match(/^ +remote-app infer .*/gm)).toEqual([
      expect.stringMatching(/ infer -i CHANNEL_0 -i CHANNEL_1 +# T1, FLAIR$/),
      expect.stringMatching(/ infer -i CHANNEL_0 -i CHANNEL_1 .*--ensemble 2 +# what nnUNetv2_predict does/),
    ]);
  });

  const disk = smallDisk(1);
  test.skipIf(disk === null)('init --from nnunet leaves nothing behind on a full disk', async () => {
    const large = Buffer.concat([checkpoint.subarray(0, 4), Buffer.alloc(2 << 20), checkpoint.subarray(-22)]);
    await using cli = await withFolder({ [`${resultsName}/fold_1/checkpoint_final.pth`]: large });
    const target = path.join(disk ?? '', 'liver');
    const { code, stderr } = await cli.run(['init', target, '--from', 'nnunet', resultsName]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/no space left.*run the command again/i)]);
    expect(await readdir(target)).toEqual([]);
    // Another file system, where no link is possible.
    await plant(cli.directory, nnunetFolder());
    const again = await cli.run(['init', target, '--from', 'nnunet', resultsName]);
    expect([again.code, again.stdout]).toEqual([0, expect.stringContaining('The weights are copied.')]);
    expect(await readFile(path.join(target, 'model/fold_1.pth'))).toEqual(checkpoint);
  });

  for (const [name, tta] of [
    ['nnUNetTrainer__nnUNetPlans__2d', 3],
    ['nnUNetTrainerNoMirroring__nnUNetPlans__3d_fullres', 0],
    ['nnUNetTrainer_onlyMirror01__nnUNetPlans__3d_lowres', 3],
  ] as const)
    test(`init --from nnunet offers the mirroring of ${name}: ${tta}`, async () => {
      await using cli = await withFolder({}, name);
      expect((await cli.run(['init', 'app', '--from', 'nnunet', name])).code).toBe(0);
      expect((await json(cli.directory, 'app/app.json')).tta).toBe(tta);
    });

  const file = (name: string) => `${resultsName}/${name}`;
  const broken: readonly (readonly [
    string,
    Readonly<Record<string, string | Buffer | null>>,
    RegExp,
    string?,
  ])[] = [
    ['no dataset.json', { [file('dataset.json')]: null }, /has no dataset\.json/],
    ['no plans.json', { [file('plans.json')]: null }, /has no plans\.json/],
    [
      'a dataset.json that is cut',
      { [file('dataset.json')]: '{"labels": {' },
      /cannot be read: it is not JSON/,
    ],
    [
      'plans of another program',
      { [file('plans.json')]: '{"stages": 2}' },
      /not of nnU-Net v2: configurations is missing/,
    ],
    [
      'plans of another network',
      { [file('plans.json')]: '{"configurations": {"2d": {"patch_size": [64, 64]}}}' },
      /no configuration '3d_fullres', only 2d/,
    ],
    [
      'plans that inherit in a circle',
      {
        [file('plans.json')]:
          '{"configurations": {"3d_fullres": {"inherits_from": "a"}, "a": {"inherits_from": "3d_fullres"}}}',
      },
      /no configuration '3d_fullres'/,
    ],
    [
      'no fold',
      { [file('fold_0/checkpoint_final.pth')]: null, [file('fold_1/checkpoint_final.pth')]: null },
      /has no fold/,
    ],
    [
      'folds that are still in training',
      {
        [file('fold_0/checkpoint_final.pth')]: null,
        [file('fold_0/checkpoint_latest.pth')]: checkpoint,
        [file('fold_1/checkpoint_final.pth')]: null,
      },
      /No fold of .* has checkpoint_final\.pth.*fold_0\/checkpoint_latest\.pth/,
    ],
    [
      'weights that are cut',
      { [file('fold_1/checkpoint_final.pth')]: checkpoint.subarray(0, 60) },
      /fold_1.*its end is missing/,
    ],
    ['weights that are empty', { [file('fold_1/checkpoint_final.pth')]: '' }, /fold_1.*it is empty/],
    [
      'a pointer in place of weights',
      {
        [file('fold_0/checkpoint_final.pth')]: 'version https://git-lfs.github.com/spec/v1\noid sha256:00\n',
      },
      /fold_0.*git lfs pull/,
    ],
    [
      'weights of something else',
      { [file('fold_0/checkpoint_final.pth')]: 'TensorFlow' },
      /fold_0.*not a checkpoint of PyTorch/,
    ],
    [
      'nnU-Net v1',
      { [file('fold_0/model_final_checkpoint.model')]: checkpoint, [file('plans.pkl')]: 'x' },
      /is of nnU-Net v1 \(model_final_checkpoint\.model\)/,
    ],
    ['plans of nnU-Net v1', { [file('plans.pkl')]: 'x' }, /is of nnU-Net v1 \(plans\.pkl\)/],
    [
      'labels of v1',
      { [file('dataset.json')]: changed(dataset, { labels: { 0: 'background', 1: 'liver' } }) },
      /labels of nnU-Net v1/,
    ],
    [
      'no background',
      { [file('dataset.json')]: changed(dataset, { labels: { liver: 1 } }) },
      /no label 'background'/,
    ],
    [
      'a label that is no number',
      { [file('dataset.json')]: changed(dataset, { labels: { background: 0, liver: 'x' } }) },
      /label 'liver' is not a whole number/,
    ],
    [
      'nothing but background',
      { [file('dataset.json')]: changed(dataset, { labels: { background: 0 } }) },
      /no label but the background/,
    ],
    [
      'regions without an order',
      { [file('dataset.json')]: changed(dataset, { labels: { background: 0, whole: [1, 2], core: 2 } }) },
      /2 regions, and 'regions_class_order' has no values/,
    ],
    ['no ending', { [file('dataset.json')]: changed(dataset, { file_ending: undefined }) }, /no file_ending/],
    ['a huge plans.json', { [file('plans.json')]: Buffer.alloc(17 << 20, ' ') }, /longer than 16384 KiB/],
    ['the folder of a fold', {}, /is one fold: name the folder above it/, file('fold_0')],
    [
      'results of several networks',
      Object.fromEntries(
        ['2d', '3d_fullres'].flatMap((each) =>
          Object.entries(nnunetFolder(`results/Dataset003/nnUNetTrainer__nnUNetPlans__${each}`)),
        ),
      ),
      /several networks: name one of Dataset003\/nnUNetTrainer__nnUNetPlans__2d, Dataset003\/nnUNetTrainer__nnUNetPlans__3d_fullres$/m,
      'results',
    ],
    [
      'a checkpoint',
      {},
      /is a file: name the folder with dataset\.json/,
      file('fold_0/checkpoint_final.pth'),
    ],
    ['an archive', { 'model.zip': 'PK' }, /is an archive: unpack it/, 'model.zip'],
    ['a folder that is not there', {}, /not a folder that can be read: .*no such file/i, 'absent'],
    [
      'a folder of something else',
      { 'other/file': '' },
      /not a results folder of nnU-Net: it has no dataset\.json and no plans\.json/,
      'other',
    ],
  ];

  for (const [what, changes, sentence, source = resultsName] of broken)
    test(`init --from nnunet refuses ${what} in one sentence, and writes nothing`, async () => {
      await using cli = await withFolder(changes);
      const { code, stdout, stderr } = await cli.run(['init', 'liver', '--from', 'nnunet', source]);
      expect([code, stdout, stderr]).toEqual([2, '', expect.stringMatching(sentence)]);
      expect(stderr.trim().split('\n')).toHaveLength(1);
      expect(await readdir(cli.directory)).not.toContain('liver');
    });

  test('init --from nnunet refuses a renamed folder that lacks its configuration, and the second network of a cascade', async () => {
    await using cli = await withFolder({}, 'renamed');
    const renamed = await cli.run(['init', 'liver', '--from', 'nnunet', 'renamed']);
    expect(renamed.code, renamed.stderr).toBe(2);
    expect(renamed.stderr).toContain('TRAINER__PLANS__CONFIGURATION');
    const cascade = 'nnUNetTrainer__nnUNetPlans__3d_cascade_fullres';
    await plant(cli.directory, nnunetFolder(cascade));
    const refused = await cli.run(['init', 'liver', '--from', 'nnunet', cascade]);
    expect(refused.code, refused.stderr).toBe(2);
    expect(refused.stderr).toContain("second network of a cascade, which needs the results of '3d_lowres'");
  });

  test('init --from nnunet reports missing and superfluous arguments', async () => {
    await using cli = await withFolder({ 'full/mine': 'mine' });
    for (const [words, sentence] of [
      [['init', 'a', '--from', 'nnunet'], 'two names, the new app and the folder of the network'],
      [['init', 'a', resultsName], `--from nnunet ${resultsName}`],
      [['init', 'a', '--from', 'nnunet', resultsName, '--language', 'shell'], 'leave --language out'],
      [['init', 'a', '--copy'], '--from'],
      [['init', 'full', '--from', 'nnunet', resultsName], 'is not empty'],
    ] as const) {
      const { code, stderr } = await cli.run(words);
      expect([code, stderr]).toEqual([2, expect.stringContaining(sentence)]);
    }
    expect(await readdir(path.join(cli.directory, 'full'))).toEqual(['mine']);
  });
});

/** Stands in for Python: makes an environment, and installs what it is told, or fails. */
const standIn = `#!/bin/sh
if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; exit; fi
echo "Collecting nnunetv2"
[ ! -p "$HOME/go" ] || read -r _ < "$HOME/go"
[ ! -e "$HOME/broken" ] || { echo "ERROR: No matching distribution found for nnunetv2==2.8.1" >&2; exit 1; }
echo "$@" > "$HOME/installed"
`;

describe('init --from nnunet --venv', () => {
  async function withPython() {
    const cli = await withFolder();
    await plant(cli.home, { 'bin/python3': standIn });
    await chmod(path.join(cli.home, 'bin/python3'), 0o755);
    return { cli, env: { PATH: `${path.join(cli.home, 'bin')}:${process.env.PATH}` } };
  }
  const words = ['init', 'liver', '--from', 'nnunet', resultsName, '--venv'];

  test('init --from nnunet --venv creates an environment with the requirements, and the app runs in it', async () => {
    const { cli, env } = await withPython();
    await using _ = cli;
    const { code, stderr } = await cli.run(words, env);
    expect([code, stderr]).toEqual([0, expect.stringContaining('Installing the packages')]);
    expect((await json(cli.directory, 'liver/app.json')).command).toEqual(['venv/bin/python', 'main.py']);
    expect(await readFile(path.join(cli.home, 'installed'), 'utf8')).toContain(
      'install --only-binary :all: --no-binary acvl-utils -r requirements.txt',
    );
    expect(stderr).toMatch(
      /^pip will install nnunetv2==.*, torch>=.* into '.*liver\/venv', wheels only, except acvl-utils, which is built from source$/m,
    );
  });

  test('init --from nnunet --venv shows how long a step has been running, since pip may print nothing for minutes', async () => {
    const { cli, env } = await withPython();
    await using _ = cli;
    const go = path.join(cli.home, 'go');
    execFileSync('mkfifo', [go]);
    await using terminal = new ScreenTerminal(cli, words, { env });
    await terminal.shows(
      /Installing the packages of requirements\.txt: Collecting nnunetv2 \(\d+ s so far\)$/,
    );
    await writeFile(go, '\n');
    expect(await terminal.ended()).toBe(0);
  });

  test('init --from nnunet --venv says why it failed, and which command would create the environment', async () => {
    const { cli, env } = await withPython();
    await using _ = cli;
    await plant(cli.home, { broken: '' });
    const { code, stderr } = await cli.run(words, env);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /The app is written, and its environment is not: .*exit code 1: .*No matching distribution.*; run 'python3 -m venv venv && /,
    );
    expect(await json(cli.directory, 'liver/app.json')).toMatchObject({ resident: true });
  });

  test('init --from nnunet --venv says that Python is missing and how to install it, as check does', async () => {
    await using cli = await withFolder();
    const env = { PATH: cli.home };
    const bring = 'apt-get install python3-venv';
    const made = await cli.run(words, env);
    expect(made.code, made.stderr).toBe(1);
    expect(made.stderr).toContain(
      `its environment is not: python3 -m venv is not there (Debian and Ubuntu: ${bring})`,
    );
    await cli.run(['init', 'plain', '--from', 'nnunet', resultsName], env);
    const { code, stdout } = await cli.run(['check', 'plain', '--no-run'], env);
    expect([code, stdout]).toEqual([1, expect.stringContaining(bring)]);
  });

  test.skipIf(lacks('python3'))('check names the command that creates a missing environment', async () => {
    await using cli = await withFolder();
    expect((await init(cli)).code).toBe(0);
    const manifest = path.join(cli.directory, 'liver/app.json');
    const all = await json(manifest);
    await plant(cli.directory, {
      'liver/app.json': JSON.stringify({ ...all, command: ['venv/bin/python', 'main.py'] }),
    });
    const { code, stdout } = await cli.run(['check', 'liver', '--no-run']);
    expect(code, stdout).toBe(1);
    expect(stdout).toContain(
      "run 'python3 -m venv venv && venv/bin/python -m pip install -r requirements.txt' in",
    );
  });
});

describe('check of an nnU-Net app', () => {
  test.skipIf(lacks('python3'))('check finds missing packages and weights of an nnU-Net app', async () => {
    await using cli = await withFolder();
    await init(cli);
    await rm(path.join(cli.directory, 'liver/model/fold_1.pth'));
    const { stdout } = await cli.run(['check', 'liver', '--no-run']);
    expect(stdout).toMatch(/not installed for .*python.*: .*nnunetv2/);
    expect(stdout).toContain('the file fold_1.pth is not there');
  });

  test.skipIf(lacks('python3'))('check reports a PyTorch without CUDA if there are GPUs', async () => {
    await using cli = await withFolder();
    await init(cli);
    for (const [cuda, gpus, isTold] of [
      ['None', 1, true],
      ["'13.2'", 1, false],
      ['None', 0, false],
    ] as const) {
      await plant(cli.directory, {
        'modules/torch/__init__.py': 'raise Exception("this is not imported")',
        'modules/torch/version.py': `__version__ = '2.15.0'\ncuda: Optional[str] = ${cuda}\n`,
      });
      const { stdout } = await cli.run(['check', 'liver', '--no-run'], {
        PATH: `${path.resolve('test/fixtures/bin')}:${process.env.PATH}`,
        FAKE_GPUS: String(gpus),
        PYTHONPATH: path.join(cli.directory, 'modules'),
      });
      expect(/PyTorch without CUDA.*H200.*pip install --force-reinstall torch/.test(stdout)).toBe(isTold);
    }
  });
});
