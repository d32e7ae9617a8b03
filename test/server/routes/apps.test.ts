import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { refusal } from '../../support/api.js';
import { least, steps } from '../../support/form.js';
import { type FormValues, file } from '../../support/form.mjs';
import { list } from '../../support/list.mjs';
import { apps, sharedServer } from '../../support/server.js';
import { unzip } from '../../support/unzip.mjs';
import { zipOf } from '../../support/zip.mjs';

const root = mkdtempSync(path.join(tmpdir(), 'remote-app-test-'));
afterAll(() => rmSync(root, { recursive: true }));

/** An app directory with these files; values other than texts are written as JSON. */
function app(name: string, files: Record<string, unknown>): string {
  const directory = path.join(root, name);
  for (const [file, content] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(directory, file)), { recursive: true });
    writeFileSync(
      path.join(directory, file),
      typeof content === 'string' ? content : JSON.stringify(content),
    );
  }
  return directory;
}

const plain = { display_name: 'P', description: 'd', short_description: 's', tta: 2, mc_dropout: 0 };
const noJson = app('no-json', { 'app.json': '{ "display_name": ' });
const noUncertainty = app('plain', {
  'app.json': plain,
  'b.onnx': 'w',
  'deep/a.ckpt': 'w',
  'Config.yml': 'c',
});
const tuned = app('tuned', {
  'app.json': { ...plain, models: ['CV_0.json', 'CV_1.json', 'CV_2.pt'] },
  'other.json': {},
  'CV_2.pt': 'w',
  'CV_3.pt': 'w',
  'checkpoints/CV_0.json': {},
  'checkpoints/Tuned.json': {},
  'checkpoints/notes.txt': 't',
  'elsewhere/Other.json': {},
});
/** An app of the KonfAI ecosystem: with other types than ours, and unknown keys. */
const loose = app('loose', {
  'app.json': {
    display_name: 7,
    description: null,
    short_description: '',
    tta: ' 4 ',
    mc_dropout: true,
    inputs: { CT: { display_name: 1, volume_type: 'VOLUME', required: 1 } },
    outputs: null,
    models: ['CV_0', 'folds/CV_1', 'CV_2'],
    patch_size: 'None',
    command: null,
    task: 'segmentation',
    vram_plan: { '96': 4.5 },
    app: 'another',
  },
  'Prediction.yml':
    'Predictor:\n  Model:\n    classpath: model:UNet\n    UNet:\n      iterations: 300\n      optimizer: {name: Adam}\n  Dataset:\n    Patch:\n      patch_size: [1, 0, "64"]\n',
  'CV_0.pt': 'w',
  'folds/CV_1.pt': 'w',
  'deep/Prediction.yml': 'nested: 1\n',
  'deep/extra.yml': 'nested: 2\n',
  'deep/__pycache__/model.cpython-311.pyc': 'compiled',
});
const broken = (key: string, value: unknown) =>
  app(`broken-${key}`, { 'app.json': { ...plain, [key]: value } });
const brokenTta = broken('tta', 'many');
const brokenInputs = broken('inputs', { CT: { volume_type: 'VOLUME' } });
const stealer = app('stealer', { 'app.json': { ...plain, command: ['node', '../probe-copy/main.mjs'] } });
cpSync(apps.probe, path.join(root, 'probe-copy'), { recursive: true });

/** Apps whose files would block a server that reads or parses them without limits. */
const deep = '{"a":'.repeat(5000) + 1 + '}'.repeat(5000);
const deepApp = app('deep', { 'app.json': `${JSON.stringify(plain).slice(0, -1)},"more":${deep}}` });
const hugeApp = app('huge', { 'app.json': { ...plain, description: 'x'.repeat(2 ** 20) } });
const yamlBomb = (name: string, yaml: string) => app(name, { 'app.json': plain, 'Prediction.yml': yaml });
const bracesApp = yamlBomb('braces', '{'.repeat(65_536));
const dashesApp = yamlBomb('dashes', `${'- '.repeat(32_000)}x`);
const longYamlApp = yamlBomb('long-yaml', 'a: b\n'.repeat(1_000_000));
const pipeApp = app('pipe', { 'notes.txt': '' });
execFileSync('mkfifo', [path.join(pipeApp, 'app.json')]);
const linkApp = app('link', { 'notes.txt': '' });
symlinkSync('/etc/passwd', path.join(linkApp, 'app.json'));
const pipeYamlApp = app('pipe-yaml', { 'app.json': plain });
execFileSync('mkfifo', [path.join(pipeYamlApp, 'Prediction.yml')]);

const strictApp = app('strict', {
  'app.json': {
    ...plain,
    command: ['true'],
    inputs: { V: { display_name: 'CT', volume_type: 'VOLUME' } },
    patch_size: [8, 8, 8],
    parameters: {
      scale: { default: 1, min: 0.5, max: 2 },
      mode: { default: 'fast', choices: ['fast', 'exact'] },
    },
  },
  'a.pt': 'w',
});

const server = sharedServer({
  runners: true,
  apps: [
    apps.probe,
    apps.broken,
    noJson,
    noUncertainty,
    loose,
    brokenTta,
    brokenInputs,
    tuned,
    stealer,
    'VBoussot/ImpactSynth:MR',
  ],
  flags: ['--engine', `node ${apps.probe}/main.mjs engine`],
});
const { api } = server;

describe('the list of apps', () => {
  test('The list of apps has their identifiers', async () => {
    expect(await api.json('/repo_apps_list')).toEqual({
      apps: list`probe broken no-json plain loose broken-tta broken-inputs tuned stealer
        VBoussot/ImpactSynth:MR`,
    });
  });
});

describe('an app with files that are too large or too deep', () => {
  const strange = sharedServer({
    apps: [deepApp, hugeApp, bracesApp, dashesApp, longYamlApp, pipeApp, linkApp, pipeYamlApp],
  });
  const cannotBeRead = 'app.json of this app cannot be read: ';

  test.for([
    ['deep', 'app.json of this app is not valid: it has more than 64 levels of objects and lists'],
    ['huge', `${cannotBeRead}it is longer than 1024 KiB`],
    ['link', `${cannotBeRead}it is a link to a file that is not JSON`],
    ['pipe', `${cannotBeRead}it is not a regular file`],
  ] as const)('%s is reported as unavailable with the reason, and runs no job', async ([name, reason]) => {
    expect(await strange.api.json(`/repo_apps/${name}`)).toEqual({ app: name, available: false, reason });
    const refused = await strange.api.refused('infer', least.infer, { app: name });
    expect(refused).toEqual([422, `The app '${name}' is not available: ${reason}`]);
  });

  test.for(['braces', 'dashes', 'long-yaml', 'pipe-yaml'])('%s has no patch size', async (name) => {
    expect(await strange.api.json(`/repo_apps/${name}`)).toMatchObject({ available: true, patch_size: null });
  });
});

describe('an app that declares its parameters', () => {
  const { api } = sharedServer({ runners: true, apps: [strictApp], app: 'strict' });
  const set = (...overrides: string[]) => ({ ...least.infer, ...steps(...overrides) });
  const two = [file('a.nii'), file('b.nii')];

  test.for<[string, FormValues, string]>([
    [
      'infer',
      set('scale=99'),
      "Field 'options.config_overrides' has the value 'scale=99': the app 'strict' takes 'scale' from 0.5 to 2",
    ],
    [
      'infer',
      { inputs: two, inputs_groups: '1,1' },
      "Field 'inputs' does not fit: the app 'strict' takes 1 group of inputs: 'CT'; got 2",
    ],
    [
      'infer',
      { ...least.infer, tta: '3' },
      "Field 'tta' has the value '3': the app 'strict' takes at most 2",
    ],
    [
      'infer',
      { inputs: [file('report', '%PDF-1.7')] },
      "Field 'inputs' does not fit: the app 'strict' takes volumes as 'CT', and 'report' is a document",
    ],
    [
      'pipeline',
      least.pipeline,
      "The app 'strict' has no evaluation; it has: inference; Field 'uncertainty' has the value 'true'",
    ],
    [
      'fine_tune',
      { dataset: file('data.zip', zipOf({ a: 'b' })) },
      "The app 'strict' cannot be fine-tuned; it has: inference",
    ],
  ])('An app that declares its parameters refuses all others: %s %j', async ([operation, form, sentence]) => {
    expect(await api.refused(operation, form)).toEqual([422, expect.stringContaining(sentence)]);
  });

  test('An app that declares its parameters accepts those', async () => {
    await api.accepted('infer', { ...set('scale=2', 'mode=exact'), tta: '2', ensemble_models: 'a' });
    await api.accepted('evaluate', { ...least.evaluate, evaluation_file: 'Own.yml' });
  });
});

describe('an app', () => {
  const volume = { display_name: 'CT', volume_type: 'VOLUME', required: true, default: null };

  test('An app is described with everything that its files say', async () => {
    expect(await api.json('/repo_apps/probe')).toEqual({
      app: 'probe',
      available: true,
      display_name: 'Probe',
      description: expect.stringContaining('Records'),
      short_description: 'Records how it was started',
      checkpoints_name: ['CV_0.pt', 'CV_1.pt'],
      checkpoints_name_available: ['CV_0.pt'],
      maximum_tta: 8,
      mc_dropout: 4,
      patch_size: null,
      has_capabilities: [true, true, true],
      finetunable: true,
      inputs: {
        Volume_0: { ...volume, volume_type: 'FILE' },
        Volume_1: { ...volume, volume_type: 'FILE', display_name: 'MR', required: false },
      },
      outputs: { sCT: { ...volume, display_name: 'Synthetic CT' } },
      inputs_evaluations: { Image: { 'Evaluation.yml': { Volume_0: volume } } },
      terminology: { '1': { name: 'Bone', color: '#f1d691' } },
      version: expect.stringMatching(/^sha256:/),
    });
  });

  test('An app has the checkpoints that were added beside the listed ones', async () => {
    expect(await api.json('/repo_apps/tuned')).toMatchObject({
      checkpoints_name: ['CV_0.json', 'CV_1.json', 'CV_2.pt'],
      checkpoints_name_available: ['CV_0.json', 'CV_2.pt', 'CV_3.pt', 'Tuned.json'],
    });
  });

  test('An app is read as the KonfAI ecosystem writes it', async () => {
    expect(await api.json('/repo_apps/loose')).toEqual({
      app: 'loose',
      available: true,
      display_name: '7',
      description: '',
      short_description: '',
      checkpoints_name: ['CV_0', 'folds/CV_1', 'CV_2'],
      checkpoints_name_available: ['CV_0', 'folds/CV_1'],
      maximum_tta: 4,
      mc_dropout: 1,
      patch_size: [1, 0, 64],
      has_capabilities: [true, false, false],
      finetunable: false,
      inputs: { CT: { display_name: '1', volume_type: 'VOLUME', required: true, default: null } },
      outputs: {},
      inputs_evaluations: {},
      task: 'segmentation',
      vram_plan: { '96': 4.5 },
      parameters: { values: { iterations: 300 }, constraints: {}, path: 'Predictor.Model.UNet' },
      version: expect.stringMatching(/^sha256:/),
    });
    const job = await api.run('infer', least.infer, { app: 'loose' });
    expect((await api.recorded(job.id)).argv.slice(0, 3)).toEqual(['engine', 'infer', loose]);
  });

  test.for([
    ['broken-tta', /tta/],
    ['broken-inputs', /inputs\.CT\.display_name/],
  ] as const)('An app with an invalid field names that field: %s', async ([id, field]) => {
    expect(await api.json(`/repo_apps/${id}`)).toEqual({
      app: id,
      available: false,
      reason: expect.stringMatching(field),
    });
  });

  test('An app with a short app.json is described by its files', async () => {
    expect(await api.json('/repo_apps/plain')).toEqual({
      app: 'plain',
      available: true,
      display_name: 'P',
      description: 'd',
      short_description: 's',
      checkpoints_name: ['a.ckpt', 'b.onnx'],
      checkpoints_name_available: ['a.ckpt', 'b.onnx'],
      maximum_tta: 2,
      mc_dropout: 0,
      patch_size: null,
      has_capabilities: [false, false, false],
      finetunable: true,
      inputs: {},
      outputs: {},
      inputs_evaluations: {},
      version: expect.stringMatching(/^sha256:/),
    });
  });

  test.for([
    ['broken', /description/],
    ['no-json', /app\.json/],
    ['VBoussot/ImpactSynth:MR', /not in the cache, and HF_HUB_OFFLINE/],
  ] as const)('An app whose files cannot be read says why it is not available: %s', async ([id, reason]) => {
    const view = await api.json(`/repo_apps/${encodeURIComponent(id)}`);
    expect(view).toEqual({ app: id, available: false, reason: expect.stringMatching(reason) });
    expect(view.reason).not.toContain(root);
  });

  test.for(['broken', 'VBoussot/ImpactSynth:MR'])(
    'An unavailable app gives the reason to a job: %s',
    async (id) => {
      const { reason } = await api.json(`/repo_apps/${encodeURIComponent(id)}`);
      const because = String(reason).replaceAll(/\s*\n\s*/g, ' ');
      expect(await api.refused('infer', least.infer, { app: id })).toEqual([
        422,
        `The app '${id}' is not available: ${because}`,
      ]);
    },
  );

  test('An app without a command is run by the engine', async () => {
    const form = { ...least.uncertainty, uncertainty_file: 'Own.yml' };
    const job = await api.run('uncertainty', form, { app: 'plain' });
    expect((await api.recorded(job.id)).argv.slice(0, 3)).toEqual(['engine', 'uncertainty', noUncertainty]);
  });

  test('Exit code 75 means a lack of GPU memory for an app run by the engine, but not for an app with its own command', async () => {
    const form = { ...least.infer, ...steps('exit=75') };
    const ofEngine = await api.run('infer', form, { app: 'plain' });
    expect(ofEngine.view.error).toMatch(/GPU ran out of memory .*--patch-size/);
    const own = await api.run('infer', form);
    expect(own.view.error).toBe('Subprocess failed (exit code 75)');
  });

  test('An app cannot have a file outside its directory as its command', async () => {
    const { view, log } = await api.run('infer', least.infer, { app: 'stealer' });
    expect(view.status).toBe('error');
    expect(log).not.toContain('probe infer');
  });
});

describe("an app's configuration", () => {
  test("An app's configuration is a zip of its files without the weights", async () => {
    const response = await api.fetch('/repo_apps_config/probe');
    expect(response.headers.get('content-type')).toBe('application/zip');
    const files = await unzip(Buffer.from(await response.arrayBuffer()));
    expect([...files.keys()].sort()).toEqual(list`Config.yml Evaluation.yml Prediction.yml
      Uncertainty.yml app.json configs/extra.yml extra.yml main.mjs play.mjs`);
    expect(String(files.get('configs/extra.yml'))).toBe('depth: 3\n');
  });

  test("An app's configuration also has the files of its directories at the top, where KonfAI looks for them", async () => {
    const response = await api.fetch('/repo_apps_config/loose');
    const files = await unzip(Buffer.from(await response.arrayBuffer()));
    expect([...files.keys()].sort()).toEqual(list`Prediction.yml app.json deep/Prediction.yml
      deep/extra.yml extra.yml`);
    expect(String(files.get('Prediction.yml'))).toContain('Patch');
    expect(String(files.get('extra.yml'))).toBe('nested: 2\n');
  });

  test("An app's configuration leaves out weights in every directory", async () => {
    const response = await api.fetch('/repo_apps_config/plain');
    const files = await unzip(Buffer.from(await response.arrayBuffer()));
    expect([...files.keys()].sort()).toEqual(['Config.yml', 'app.json']);
  });

  test("An app's configuration answers HEAD", async () => {
    const response = await api.fetch('/repo_apps_config/probe', { method: 'HEAD' });
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/zip']);
  });

  test('The configuration of a repository that is not in the cache is 404', async () => {
    const response = await api.fetch(`/repo_apps_config/${encodeURIComponent('VBoussot/ImpactSynth:MR')}`);
    expect(await refusal(response)).toEqual([404, expect.stringContaining('ImpactSynth')]);
  });
});
