import { describe, expect, test } from 'vitest';
import { groupsField } from '../../../src/contract/fields.js';
import { operationNames, operationOf } from '../../../src/contract/operations.js';
import { least, options } from '../../support/form.js';
import { type FormValues, file } from '../../support/form.mjs';
import { apps, sharedServer } from '../../support/server.js';
import { zipOf } from '../../support/zip.mjs';

const server = sharedServer({ gpus: 2, flags: ['--cpu-slots', '3'] });
const { api } = server;
const app = apps.probe;

const dataset = file('data.zip', zipOf({ 'CASE_0/ct.nii': 'a' }));

/** The app's arguments; paths of the job are relative to its directory. */
async function argvOf(operation: string, form: FormValues): Promise<string[]> {
  const { argv, cwd } = await api.probe(operation, form);
  const directory = `${cwd.slice(0, cwd.lastIndexOf('/'))}/`;
  return argv.map((each) => each.replace(directory, ''));
}

/** Every field of each operation, as a form; written by hand. */
const everything: Record<string, FormValues> = {
  infer: {
    inputs: [file('a.nii'), file('b.nii'), file('c.nii')],
    inputs_groups: '2,1',
    ensemble: '2',
    ensemble_models: 'CV_0.pt, folds/CV_1.pt',
    tta: '4',
    mc: '4',
    uncertainty: 'true',
    prediction_file: 'Fast.yml',
    gpu: '1,0',
    cpu: '7',
    quiet: 'true',
    keep: '1h',
    time_limit: '2h',
    retry_alone: 'true',
    tag: 'study',
    deidentified: 'true',
    ...options({
      patch_size: [96, 80, 0],
      max_voxels: 9000,
      batch_size: 0,
      config_overrides: ['a.b=1', 'c=x y'],
    }),
  },
  evaluate: {
    inputs: [file('a.nii'), file('b.nii')],
    inputs_groups: '1,1',
    gt: [file('gt.nii'), file('gt.nii')],
    gt_groups: '1,1',
    mask: [file('m.nii'), file('n.nii')],
    mask_groups: '2',
    evaluation_file: 'Other.yml',
    gpu: '0',
    cpu: '2',
    quiet: 'true',
    keep: '1h',
    time_limit: '2h',
    retry_alone: 'true',
    tag: 'study',
    deidentified: 'true',
  },
  uncertainty: {
    inputs: [file('a.nii'), file('b.nii')],
    inputs_groups: '1,1',
    uncertainty_file: 'Spread.yml',
    gpu: '1',
    cpu: '2',
    quiet: 'true',
    keep: '1h',
    time_limit: '2h',
    retry_alone: 'true',
    tag: 'study',
    deidentified: 'true',
  },
  pipeline: {
    inputs: [file('a.nii'), file('b.nii')],
    inputs_groups: '2',
    gt: file('gt.nii'),
    gt_groups: '1',
    mask: file('m.nii'),
    mask_groups: '1',
    ensemble: '2',
    ensemble_models: 'CV_0.pt',
    tta: '4',
    mc: '4',
    uncertainty: 'true',
    prediction_file: 'P.yml',
    evaluation_file: 'E.yml',
    uncertainty_file: 'U.yml',
    gpu: '0',
    cpu: '2',
    quiet: 'true',
    keep: '1h',
    time_limit: '2h',
    retry_alone: 'true',
    tag: 'study',
    deidentified: 'true',
    ...options({ patch_size: [32], max_voxels: 1, batch_size: 1, config_overrides: ['a=b=c'] }),
  },
  fine_tune: {
    dataset,
    name: 'Run 2',
    epochs: '20',
    it_validation: '50',
    models: 'CV_0.pt,CV_1.pt',
    config_file: 'Tune.yml',
    lr: '0.0005',
    gpu: '0',
    cpu: '2',
    quiet: 'true',
    keep: '1h',
    time_limit: '2h',
    retry_alone: 'true',
    tag: 'study',
    deidentified: 'true',
    ...options({ batch_size: 3, config_overrides: ['a=1'] }),
  },
};

describe('the command line of an app with every field given', () => {
  const words = (text: string) => text.split(' ');
  const expected: Record<string, string[]> = {
    infer: [
      ...['infer', app, ...words('--tta 4 --mc 4 --prediction_file Fast.yml -uncertainty')],
      ...words('--ensemble_models CV_0.pt folds/CV_1.pt --patch_size 96 80 0 --max_voxels 9000'),
      ...['--batch_size', '0', '--set', 'a.b=1', '--set', 'c=x y', ...words('--output Output --gpu 1 0')],
      ...words('--inputs Input/inputs/g0/a.nii Input/inputs/g0/b.nii --inputs Input/inputs/g1/c.nii --quiet'),
    ],
    evaluate: [
      ...['eval', app, ...words('--evaluation_file Other.yml --output Output --gpu 0')],
      ...words('--inputs Input/inputs/g0/a.nii --inputs Input/inputs/g1/b.nii'),
      ...words('--gt Input/gt/g0/gt.nii --gt Input/gt/g1/gt.nii'),
      ...words('--mask Input/mask/g0/m.nii Input/mask/g0/n.nii --quiet'),
    ],
    uncertainty: [
      ...['uncertainty', app, ...words('--uncertainty_file Spread.yml --output Output --gpu 1')],
      ...words('--inputs Input/inputs/g0/a.nii --inputs Input/inputs/g1/b.nii --quiet'),
    ],
    pipeline: [
      ...['pipeline', app, ...words('--ensemble 2 --tta 4 --mc 4 --prediction_file P.yml')],
      ...words('--evaluation_file E.yml --uncertainty_file U.yml -uncertainty --ensemble_models CV_0.pt'),
      ...words('--patch_size 32 --max_voxels 1 --batch_size 1 --set a=b=c --output Output --gpu 0'),
      ...words('--inputs Input/inputs/g0/a.nii Input/inputs/g0/b.nii'),
      ...words('--gt Input/gt/g0/gt.nii --mask Input/mask/g0/m.nii --quiet'),
    ],
    fine_tune: [
      ...['fine-tune', app, 'Run 2', ...words('--config Tune.yml --epochs 20 --it_validation 50')],
      ...words('--models CV_0.pt CV_1.pt --lr 0.0005 --dataset Input/dataset --batch_size 3 --set a=1'),
      ...words('--output Output --gpu 0 --quiet'),
    ],
  };

  test.for(operationNames)(
    'With every field given, the command line of %s matches docs/reference.md',
    async (operation) => {
      expect(await argvOf(operation, everything[operation] ?? {})).toEqual(expected[operation]);
    },
  );

  test.for(operationNames)(
    'With every field given, the command line leaves out no field of %s',
    (operation) => {
      const { options: json, ...form } = everything[operation] ?? {};
      const given = [...Object.keys(form), ...Object.keys(JSON.parse(String(json ?? '{}')))];
      const known = operationOf(operation).fields.flatMap((field) =>
        field.kind === 'files' ? [field.name, groupsField(field)] : [field.name],
      );
      expect(given.sort()).toEqual(known.sort());
    },
  );
});

describe('the command line of an app with only the required fields', () => {
  const expected: Record<string, string> = {
    infer:
      'infer APP --tta 0 --mc 0 --prediction_file Prediction.yml --ensemble 0 ' +
      '--output Output --gpu 0 --inputs Input/inputs/g0/ct.nii',
    evaluate:
      'eval APP --evaluation_file Evaluation.yml --output Output --gpu 0 ' +
      '--inputs Input/inputs/g0/ct.nii --gt Input/gt/g0/gt.nii',
    uncertainty:
      'uncertainty APP --uncertainty_file Uncertainty.yml --output Output --gpu 0 ' +
      '--inputs Input/inputs/g0/stack.nii',
    pipeline:
      'pipeline APP --ensemble 0 --tta 0 --mc 0 --prediction_file Prediction.yml ' +
      '--evaluation_file Evaluation.yml --uncertainty_file Uncertainty.yml -uncertainty ' +
      '--output Output --gpu 0 --inputs Input/inputs/g0/ct.nii --gt Input/gt/g0/gt.nii',
    fine_tune:
      'fine-tune APP Finetune --config Config.yml --epochs 10 --it_validation 1000 ' +
      '--dataset Input/dataset --output Output --gpu 0',
  };

  test.for(operationNames)(
    'With only the required fields, the command line has the defaults of %s',
    async (operation) => {
      const form = operation === 'fine_tune' ? { dataset } : least[operation];
      expect((await argvOf(operation, form)).join(' ')).toBe(expected[operation]?.replace('APP', app));
    },
  );

  test("An app's command line treats an empty value as a missing one", async () => {
    const empty = {
      ensemble_models: '',
      tta: '',
      prediction_file: ' ',
      gpu: '',
      cpu: '',
      quiet: '',
      options: '',
    };
    expect((await argvOf('infer', { ...least.infer, ...empty, inputs_groups: '' })).join(' ')).toBe(
      expected.infer?.replace('APP', app),
    );
  });

  test("An app's command line has --cpu for a form that carries cpu and no gpu", async () => {
    const argv = await argvOf('infer', { ...least.infer, cpu: '2' });
    expect(argv.join(' ')).toContain(' --output Output --cpu 2 --inputs ');
    expect(argv).not.toContain('--gpu');
  });

  test("An app's command line has the granted --cpu if the form asks for more than the server has", async () => {
    const argv = await argvOf('infer', { ...least.infer, cpu: '99' });
    expect(argv.join(' ')).toContain(' --output Output --cpu 3 --inputs ');
  });

  test.for([
    ['True', true],
    ['TRUE', true],
    ['1', true],
    ['yes', true],
    ['On', true],
    ['False', false],
    ['0', false],
    ['no', false],
    ['OFF', false],
  ] as const)('The boolean %s of a form is read as %s', async ([text, value]) => {
    const argv = await argvOf('pipeline', { ...least.pipeline, uncertainty: text, quiet: text });
    expect([argv.includes('-uncertainty'), argv.includes('--quiet')]).toEqual([value, value]);
  });
});

describe('a field that no operation has', () => {
  test('A field that no operation has is ignored, and the log says so', async () => {
    const form = { ...least.infer, surprise: '--output /etc', constructor: 'x', file: file('x.bin') };
    const { id, log, view } = await api.run('infer', form);
    expect(view.status).toBe('done');
    for (const name of ['surprise', 'constructor', 'file']) {
      expect(log).toMatch(new RegExp(`data: \\[remote-app\\] .*'${name}'`));
    }
    expect((await api.recorded(id)).argv.join(' ')).not.toMatch(/surprise|etc|x\.bin/);
  });
});
