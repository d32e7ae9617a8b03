import { readdir, readFile, rm, stat, symlink } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { z } from 'zod';
import { Cli } from '../support/cli.js';
import { list } from '../support/list.mjs';
import { bundleName, inference, metadata, monaiBundle, withData } from '../support/monai-bundle.js';
import { lacks } from '../support/needs.mjs';
import { checkpoint, written } from '../support/nnunet-folder.js';
import { plant } from '../support/temporary.js';

const json = async (...parts: readonly string[]) => JSON.parse(await readFile(path.join(...parts), 'utf8'));

type Changes = Readonly<Record<string, string | Buffer | object | null>>;

const inBundle = (name: string) => `${bundleName}/${name}`;

/** A command in a directory with a bundle, and what is different in it; null is a file that is not there. */
async function withBundle(changes: Changes = {}) {
  const cli = await Cli.create();
  const changed = Object.entries(changes).map(([name, content]) => [inBundle(name), content] as const);
  const files = Object.entries({ ...monaiBundle(), ...Object.fromEntries(changed) });
  const asText = (content: string | Buffer | object) =>
    typeof content === 'string' || Buffer.isBuffer(content) ? content : JSON.stringify(content);
  await plant(
    cli.directory,
    Object.fromEntries(
      files.flatMap(([name, content]) => (content === null ? [] : [[name, asText(content)]])),
    ),
  );
  return cli;
}

const init = (cli: Cli, ...more: readonly string[]) =>
  cli.run(['init', 'spleen', '--from', 'monai-bundle', bundleName, ...more]);

const config = 'configs/inference.json';
const about = 'configs/metadata.json';

/** The configuration with other transforms after the network. */
const postprocessed = (...transforms: readonly object[]) => ({
  ...inference,
  postprocessing: { _target_: 'Compose', transforms },
});
const [activate, invert, decide, save] = inference.postprocessing.transforms as [
  object,
  object,
  object,
  object,
];

describe('init --from monai-bundle', () => {
  test('init --from monai-bundle writes an app that matches the bundle, and leaves the bundle unchanged', async () => {
    await using cli = await withBundle();
    const weights = path.join(cli.directory, bundleName, 'models/model.pt');
    const before = await stat(weights);
    const { code, stdout, stderr } = await init(cli);
    expect([code, stderr]).toEqual([0, '']);
    const app = path.join(cli.directory, 'spleen');
    expect(stdout.split('\n')).toEqual([
      `Wrote app.json, main.py, cases.py, evaluation.py, Evaluation.yml, requirements.txt, Uncertainty.yml, resident.py, app.schema.json, README.md, bundle/ in ${app}`,
      'The weights are linked.',
      'Note: models/model.ts is left out: configs/inference.json does not load it',
      "Its Python is 'python3' of the PATH, which needs requirements.txt; init --venv makes one for this app. What to do next:",
      '  remote-app check spleen --time-limit 10m',
      '  remote-app serve --apps spleen          # then, in another terminal:',
      '  remote-app infer SCAN',
      '',
    ]);

    const manifest = await json(app, 'app.json');
    expect(manifest).toEqual({
      citation: [expect.objectContaining({ doi: '10.48550/arXiv.2211.02701' })],
      $schema: './app.schema.json',
      display_name: 'spleen',
      short_description: 'Segments spleen',
      description:
        'Finds the spleen in CT. A bundle of MONAI: Spleen CT segmentation, version 0.5.9. Copyright (c) MONAI Consortium. ' +
        'Licence: Apache License Version 2.0, January 2004.',
      command: ['python3', 'main.py'],
      resident: true,
      tta: 0,
      mc_dropout: 0,
      models: ['model.pt'],
      patch_size: [96, 96, 96],
      parameters: {
        overlap: { default: 0.5, min: 0, max: 0.95, description: expect.stringMatching(/^How far patches/) },
        sw_batch_size: {
          default: 4,
          type: 'integer',
          min: 1,
          description: expect.stringMatching(/^Patches that the network sees/),
        },
      },
      inputs: { Channel_0: { display_name: 'CT', volume_type: 'VOLUME', required: true, unit: 'HU' } },
      ...written,
      terminology: { 1: { name: 'spleen', color: '#d66851' } },
    });
    const readme = await readFile(path.join(app, 'README.md'), 'utf8');
    for (const line of [
      `A bundle of MONAI, from \`${path.join(cli.directory, bundleName)}\`. \`bundle/\` has`,
      '    remote-app infer ./scans      # CT\n',
      'runs the evaluator of `configs/inference.json`,',
      'made with MONAI 1.4.0 and PyTorch 2.4.0; the program is tried with MONAI 1.6.1.',
    ])
      expect(readme).toContain(line);
    z.fromJSONSchema(await json(app, 'app.schema.json')).parse(manifest);

    expect(await json(app, 'bundle', config)).toEqual(inference);
    expect((await stat(path.join(app, 'bundle/models/model.pt'))).ino).toBe(before.ino);
    const { mtimeMs, size, mode } = await stat(weights);
    expect([mtimeMs, size, mode]).toEqual([before.mtimeMs, before.size, before.mode]);
    const found = (
      await readdir(path.join(cli.directory, bundleName), { recursive: true, withFileTypes: true })
    )
      .filter((each) => each.isFile())
      .map((each) => path.relative(cli.directory, path.join(each.parentPath, each.name)));
    expect(found.sort()).toEqual(Object.keys(monaiBundle()).sort());
    expect((await readdir(app, { recursive: true })).sort()).toEqual(list`Evaluation.yml README.md
      Uncertainty.yml app.json app.schema.json bundle bundle/LICENSE bundle/configs
      bundle/configs/inference.json bundle/configs/metadata.json bundle/models bundle/models/model.pt
      cases.py evaluation.py main.py requirements.txt resident.py`);
  });

  test('init --from monai-bundle copies the weights with --copy, and follows links inside the bundle', async () => {
    await using cli = await withBundle({ 'models/model.pt': null, 'models/model.ts': null });
    await plant(cli.directory, {
      [inBundle('store/weights')]: checkpoint,
      [inBundle('store/networks.py')]: 'x = 1\n',
    });
    await plant(cli.directory, { [inBundle('models/keep')]: '', [inBundle('scripts/__init__.py')]: '' });
    await symlink('../store/weights', path.join(cli.directory, inBundle('models/model.pt')));
    await symlink('../store/networks.py', path.join(cli.directory, inBundle('scripts/networks.py')));
    const { code, stdout } = await init(cli, '--copy', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout).model).toMatchObject({ kind: 'monai-bundle', weights: 'copied', notes: [] });
    const copy = path.join(cli.directory, 'spleen/bundle/models/model.pt');
    expect((await stat(copy)).nlink).toBe(1);
    expect(await readFile(copy)).toEqual(checkpoint);
    const code_ = path.join(cli.directory, 'spleen/bundle/scripts/networks.py');
    expect(await readFile(code_, 'utf8')).toBe('x = 1\n');
  });

  test.each([
    ['configs/metadata.json', '/etc/hostname', /cannot be read: it is not JSON/],
    ['LICENSE', '/etc/hostname', /LICENSE' is a link that leads out of .*, to '\/etc\/hostname'/],
    ['scripts/notes.txt', '../../secret', /scripts\/notes\.txt' is a link that leads out of .*secret'/],
    ['scripts/all', '/etc', /scripts\/all' is a link that leads out of .*, to '\/etc'/],
    ['models/model.pt', '../../secret.pt', /models\/model\.pt' is a link that leads out of .*secret\.pt'/],
  ])('init --from monai-bundle copies nothing through the link %s to %s', async (name, target, sentence) => {
    await using cli = await withBundle({ [name]: null, 'scripts/net.py': '' });
    await plant(cli.directory, { secret: 'of this person', 'secret.pt': checkpoint });
    await symlink(target, path.join(cli.directory, inBundle(name)));
    const { code, stderr } = await init(cli);
    expect([code, stderr]).toEqual([2, expect.stringMatching(sentence)]);
    expect(await readdir(cli.directory)).not.toContain('spleen');
  });

  test('init --from monai-bundle reads YAML, includes the code of the bundle, and names what it leaves out', async () => {
    await using cli = await withBundle({
      [config]: null,
      'configs/inference.yaml': stringify({
        ...inference,
        network_def: { _target_: 'scripts.networks.Net' },
        handlers: [
          { _target_: 'CheckpointLoader', load_path: '@ckpt', load_dict: { model: '@network' } },
          { _target_: 'MeanDiceHandler' },
        ],
        checkpointloader: undefined,
        ckpt: "$os.path.join(@bundle_root, 'models', @name + '.pt')",
        name: "$'model' if @high#resolution else 'low'",
        high: { resolution: true },
        initialize: ['$lab.prepare(@network)'],
        image_key: '$monai.utils.CommonKeys.IMAGE',
      }),
      [about]: { ...metadata, name: undefined, version: undefined, monai_version: undefined },
      'scripts/__init__.py': '',
      'scripts/networks.py': 'class Net: pass\n',
      'scripts/__pycache__/networks.pyc': 'x',
      '.git/hook.py': '',
      'venv/pyvenv.cfg': '',
      'venv/lib/torch.py': '',
      'models/model.ts': null,
    });
    const { code, stdout } = await init(cli, '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout).model.notes).toEqual([
      'The handler MeanDiceHandler of configs/inference.yaml is left out',
      "The step '$lab.prepare(@network)' of 'initialize' in configs/inference.yaml is left out",
    ]);
    const bundle = path.join(cli.directory, 'spleen/bundle');
    expect((await readdir(path.join(bundle, 'scripts'))).sort()).toEqual(['__init__.py', 'networks.py']);
    expect((await readdir(bundle)).sort()).toEqual(['LICENSE', 'configs', 'models', 'scripts']);
    expect((await json(cli.directory, 'spleen/app.json')).description).toBe(
      'Finds the spleen in CT. A bundle of MONAI. Copyright (c) MONAI Consortium. Licence: Apache License Version 2.0, January 2004.',
    );
    expect(await readFile(path.join(cli.directory, 'spleen/README.md'), 'utf8')).toContain(
      'made with PyTorch 2.4.0;',
    );
    expect((await readFile(path.join(cli.directory, 'spleen/requirements.txt'), 'utf8')).split('\n')).toEqual(
      [
        'monai==1.6.1',
        'pytorch-ignite>=0.5,<0.6',
        'torch>=2.6,<3',
        'numpy>=1.26,<3',
        'scipy>=1.11,<2',
        'SimpleITK>=2.3,<3',
        'nibabel>=5.2,<6',
        'tqdm>=4.60,<5',
        'pyyaml',
        '',
      ],
    );
  });

  test('init --from monai-bundle keeps several channels in their order', async () => {
    await using cli = await withBundle({
      [about]: withData('inputs', {
        format: 'magnitude',
        num_channels: 2,
        channel_def: { 1: 'FLAIR', 0: 'T1' },
      }),
    });
    expect((await init(cli)).code).toBe(0);
    const { inputs } = await json(cli.directory, 'spleen/app.json');
    expect(inputs).toEqual({
      Channel_0: { display_name: 'T1', volume_type: 'VOLUME', required: true },
      Channel_1: { display_name: 'FLAIR', volume_type: 'VOLUME', required: true },
    });
    expect(await readFile(path.join(cli.directory, 'spleen/README.md'), 'utf8')).toContain(
      '    remote-app infer -i CHANNEL_0 -i CHANNEL_1      # T1, FLAIR\n',
    );
  });

  const threshold = { _target_: 'AsDiscreted', keys: 'pred', threshold: 0.5 };
  const sigmoid = { _target_: 'Activationsd', keys: 'pred', sigmoid: true };
  const one = withData('outputs', { num_channels: 1, channel_def: { 0: 'lesion' } });
  for (const [what, changes, labels, isUncertain] of [
    [
      'of one channel with a threshold',
      { [config]: postprocessed(sigmoid, invert, threshold, save), [about]: one },
      { 1: 'lesion' },
      true,
    ],
    [
      'that are made before they return to the grid of the scan',
      { [config]: postprocessed(activate, decide, invert, save) },
      { 1: 'spleen' },
      false,
    ],
    ['of overlapping channels', { [config]: postprocessed(sigmoid, invert, threshold, save) }, {}, true],
    [
      'that other code changes',
      { [config]: postprocessed(activate, invert, decide, { _target_: 'Lambdad', keys: 'pred' }, save) },
      {},
      true,
    ],
    ['without names', { [about]: withData('outputs', { channel_def: null }) }, {}, true],
  ] as const)
    test(`init --from monai-bundle recognises labels ${what}, or says that it does not`, async () => {
      await using cli = await withBundle(changes);
      const { code, stdout } = await init(cli);
      expect(code).toBe(0);
      const { terminology } = await json(cli.directory, 'spleen/app.json');
      const names = Object.entries<{ name: string }>(terminology).map(([value, { name }]) => [value, name]);
      expect(Object.fromEntries(names)).toEqual(labels);
      expect(stdout.includes('The values of its labels are not known')).toBe(names.length === 0);
      const files = await readdir(path.join(cli.directory, 'spleen'));
      expect(files.includes('Uncertainty.yml')).toBe(isUncertain);
      const readme = await readFile(path.join(cli.directory, 'spleen/README.md'), 'utf8');
      expect(readme.includes('`pipeline` needs `--no-uncertainty`')).toBe(!isUncertain);
    });

  test('init --from monai-bundle says if labels are interpolated', async () => {
    const back = { ...invert, nearest_interp: false };
    for (const [transforms, isTold] of [
      [[activate, decide, back, save], true],
      [[activate, back, decide, save], false],
    ] as const) {
      await using cli = await withBundle({ [config]: postprocessed(...transforms) });
      const { stdout } = await init(cli);
      expect(stdout.includes('interpolates labels')).toBe(isTold);
    }
  });

  test('init --from monai-bundle requires the packages that the bundle and its classes need, in at least the versions that it was made with', async () => {
    await using cli = await withBundle({
      [about]: {
        ...metadata,
        monai_version: '1.10.0',
        pytorch_version: '2.12.0',
        required_packages_version: { einops: '0.7.0', 'evil --index-url x': '1', pandas: '>=2; rm' },
      },
      [config]: postprocessed(
        activate,
        invert,
        decide,
        { _target_: 'KeepLargestConnectedComponentd', keys: 'pred' },
        save,
      ),
    });
    expect((await init(cli)).code).toBe(0);
    const lines = (await readFile(path.join(cli.directory, 'spleen/requirements.txt'), 'utf8'))
      .trim()
      .split('\n');
    expect(lines).toEqual(
      expect.arrayContaining(list`monai>=1.10.0 torch>=2.12.0,<3 einops>=0.7.0 pandas scikit-image`),
    );
    for (const line of lines) expect(line).toMatch(/^[\w-]+([<>=]=?[\d.]+,?)*$/);
  });

  const broken: readonly (readonly [string, Changes, RegExp, string?])[] = [
    ['no metadata', { [about]: null }, /not a bundle of MONAI: it has no metadata\.json in configs/],
    ['metadata that is cut', { [about]: '{"version": ' }, /metadata\.json' cannot be read: it is not JSON/],
    ['metadata that is a list', { [about]: '[]' }, /is not of MONAI: its content is not as MONAI writes it/],
    [
      'metadata without its data',
      { [about]: { ...metadata, network_data_format: undefined } },
      /network_data_format is missing/,
    ],
    [
      'no configuration of inference',
      { [config]: null },
      /no configuration of inference, .*: configs has train\.json/,
    ],
    ['a configuration that is cut', { [config]: '{' }, /inference\.json' cannot be read: it is not JSON/],
    [
      'YAML that is broken',
      { [config]: null, 'configs/inference.yaml': 'a: [1, 2' },
      /inference\.yaml' cannot be read: it is not YAML/,
    ],
    [
      'YAML that contains itself',
      { [config]: null, 'configs/inference.yaml': 'a: &a [*a]\n' },
      /inference\.yaml' cannot be read: a part of it contains itself/,
    ],
    [
      'YAML that grows without end',
      {
        [config]: null,
        'configs/inference.yaml': `a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n${[...'bcdefghi'].map((name, at) => `${name}: &${name} [${`*${'abcdefgh'[at]}, `.repeat(9)}]`).join('\n')}\n`,
      },
      /inference\.yaml' cannot be read/,
    ],
    [
      'no weights',
      { 'models/model.pt': null },
      /has no weights: .* loads models\/model\.pt, .*; there is model\.ts$/,
    ],
    [
      'weights that are still to be downloaded',
      { 'models/model.pt': null, 'models/model.ts': null, 'large_files.yml': 'large_files: []' },
      /'python -m monai\.bundle download_large_files --bundle_path .*spleen_ct_segmentation' downloads it$/,
    ],
    [
      'a pointer in place of weights',
      { 'models/model.pt': 'version https://git-lfs.github.com/spec/v1\noid sha256:00\n' },
      /model\.pt.*git lfs pull/,
    ],
    [
      'weights that are cut',
      { 'models/model.pt': checkpoint.subarray(0, 60) },
      /model\.pt.*its end is missing/,
    ],
    [
      'weights elsewhere',
      {
        [config]: {
          ...inference,
          checkpointloader: { ...inference.checkpointloader, load_path: '/store/model.pt' },
        },
      },
      /loads weights from outside of the bundle, '\/store\/model\.pt'/,
    ],
    [
      'no loading of weights',
      { [config]: { ...inference, checkpointloader: undefined } },
      /has 0 CheckpointLoaders/,
    ],
    [
      'parts of other files',
      { [config]: { ...inference, network_def: '%configs/train.json#network_def' } },
      /takes a part of another file/,
    ],
    [
      'a workflow of another layout',
      { [config]: { ...inference, evaluator: undefined } },
      /has no 'evaluator'/,
    ],
    [
      'an evaluator of its own',
      { [config]: { ...inference, evaluator: { _target_: 'scripts.Evaluator' } }, 'scripts/__init__.py': '' },
      /has the evaluator 'Evaluator'/,
    ],
    [
      'results that are not saved',
      { [config]: postprocessed(activate, invert, decide) },
      /does not write its labels by one SaveImaged/,
    ],
    [
      'scans of several names',
      { [config]: { ...inference, image_key: ['artery', 'vein'] } },
      /one LoadImaged of the key 'image', but of artery, vein/,
    ],
    [
      'a reader of pictures',
      {
        [config]: {
          ...inference,
          preprocessing: { transforms: [{ _target_: 'LoadImaged', keys: 'image', reader: 'PILReader' }] },
        },
      },
      /reads its scans with 'PILReader'/,
    ],
    [
      'the folder of the configuration',
      {},
      /is a part of a bundle: name the folder above it/,
      inBundle('configs'),
    ],
    [
      'a folder of bundles',
      { '../zoo/one/configs/metadata.json': '{}' },
      /has 1 bundle: name .*zoo\/one/,
      'zoo',
    ],
    ['an archive', { '../spleen.zip': 'PK\u0003\u0004' }, /is an archive: unpack it/, 'spleen.zip'],
    ['a folder with an archive alone', { '../got/spleen.zip': 'PK' }, /unpack 'spleen\.zip'/, 'got'],
    ['a file of weights', {}, /is a file: name the folder of the bundle/, inBundle('models/model.pt')],
    [
      'a folder of something else',
      { '../other/file': '' },
      /not a bundle of MONAI: it has no configs\/metadata\.json/,
      'other',
    ],
    ['a folder that is not there', {}, /not a folder that can be read: .*no such file/i, 'absent'],
  ];

  for (const [what, changes, sentence, source = bundleName] of broken)
    test(`init --from monai-bundle refuses ${what} in one sentence, and writes nothing`, async () => {
      await using cli = await withBundle(changes);
      const { code, stdout, stderr } = await cli.run(['init', 'spleen', '--from', 'monai-bundle', source]);
      expect([code, stdout, stderr.trim()]).toEqual([2, '', expect.stringMatching(sentence)]);
      expect(stderr.trim().split('\n')).toHaveLength(1);
      expect(await readdir(cli.directory)).not.toContain('spleen');
    });
});

describe('check of an app from a bundle', () => {
  test.skipIf(lacks('python3'))('check finds missing packages and weights of a MONAI app', async () => {
    await using cli = await withBundle();
    await init(cli);
    await rm(path.join(cli.directory, 'spleen/bundle/models/model.pt'));
    const { stdout } = await cli.run(['check', 'spleen', '--no-run']);
    expect(stdout).toMatch(/not installed for .*python.*: .*monai.*pip install -r requirements\.txt/);
    expect(stdout).toContain('the file model.pt is not there');
  });
});
