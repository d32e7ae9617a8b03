import { existsSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { type FormValues, file } from '../../support/form.mjs';
import { sharedServer } from '../../support/server.js';

const server = sharedServer();
const { api } = server;

/** By flag, each group as `name: contents`. */
async function groups(operation: string, form: FormValues): Promise<Record<string, string[][]>> {
  const { files } = await api.probe(operation, form);
  const plain = (path: string) => path.slice(path.lastIndexOf('/') + 1);
  return Object.fromEntries(
    Object.entries(files).map(([flag, given]) => [
      flag,
      given.map((group) => group.map(([path, content]) => `${plain(path)}: ${content}`)),
    ]),
  );
}

describe('uploaded files', () => {
  test('Uploaded files form one group if no group sizes are given', async () => {
    const inputs = [file('b.nii', '1'), file('a.nii', '2'), file('c.nii', '3')];
    expect(await groups('infer', { inputs })).toEqual({ '--inputs': [['b.nii: 1', 'a.nii: 2', 'c.nii: 3']] });
  });

  test('Uploaded files are split by the sizes, in upload order, one folder per group', async () => {
    const form = {
      inputs: [file('a.nii', '1'), file('b.nii', '2'), file('c.nii', '3')],
      inputs_groups: ' 1, 2 ',
      gt: [file('a.nii', '4'), file('b.nii', '5')],
      gt_groups: '1,1',
      mask: [file('a.nii', '6')],
      mask_groups: '1',
    };
    expect(await groups('evaluate', form)).toEqual({
      '--inputs': [['a.nii: 1'], ['b.nii: 2', 'c.nii: 3']],
      '--gt': [['a.nii: 4'], ['b.nii: 5']],
      '--mask': [['a.nii: 6']],
    });
  });

  test('Uploaded files with the same name are numbered within a group, in upload order', async () => {
    const inputs = ['1', '2', '3', '4'].map((content) => file('ct.nii.gz', content));
    const others = [file('ct_1.nii.gz', '5'), file('README', '6'), file('README', '7')];
    expect(await groups('infer', { inputs: [...inputs, ...others], inputs_groups: '6,1' })).toEqual({
      '--inputs': [
        [
          'ct.nii.gz: 1',
          'ct_1.nii.gz: 2',
          'ct_2.nii.gz: 3',
          'ct_3.nii.gz: 4',
          'ct_1_1.nii.gz: 5',
          'README: 6',
        ],
        ['README: 7'],
      ],
    });
  });

  test('Uploaded files keep a name that looks like a numbered one', async () => {
    const inputs = [file('ct_1.nii', '1'), file('ct.nii', '2'), file('ct.nii', '3')];
    expect(await groups('infer', { inputs })).toEqual({
      '--inputs': [['ct_1.nii: 1', 'ct.nii: 2', 'ct_2.nii: 3']],
    });
  });

  test('Uploaded files are named after the last part of a path', async () => {
    const inputs = ['../../etc/passwd', '/abs/x.nii', 'C:\\scans\\y.nii', 'dir/z.nii', '..\\..\\w.nii'];
    expect(await groups('infer', { inputs: inputs.map((name) => file(name, '1')) })).toEqual({
      '--inputs': [['passwd: 1', 'x.nii: 1', 'y.nii: 1', 'z.nii: 1', 'w.nii: 1']],
    });
    expect(existsSync('/abs/x.nii')).toBe(false);
  });

  test('Uploaded files may have names of devices on another system', async () => {
    const inputs = ['NUL', 'aux.nii.gz', 'con.json'].map((name) => file(name, '1'));
    expect(await groups('infer', { inputs })).toEqual({
      '--inputs': [['NUL: 1', 'aux.nii.gz: 1', 'con.json: 1']],
    });
  });

  test('Uploaded files may have names with special meaning in a shell or on a command line', async () => {
    const names = [
      '$(touch pwned).nii',
      "a'b.nii",
      '--gpu',
      '-rf',
      'a b;c.nii',
      '*.nii',
      '.hidden',
      '\ufeffa',
    ];
    const { argv, files } = await api.probe('infer', { inputs: names.map((name) => file(name)) });
    const paths = files['--inputs']?.[0]?.map(([path]) => path) ?? [];
    expect(paths.map((path) => path.slice(path.lastIndexOf('/') + 1))).toEqual(names);
    // On the command line each is a path, never a flag.
    expect(paths.every((path) => path.startsWith('/') && argv.includes(path))).toBe(true);
  });

  test.for(['..', '.', 'dir/..', 'dir/', '/', 'x'.repeat(300), 'é'.repeat(130), 'a\u0007.nii'])(
    'Uploaded files with an impossible name are refused: %s',
    async (name) => {
      expect(await api.refused('infer', { inputs: file(name) })).toEqual([
        422,
        expect.stringContaining("'inputs'"),
      ]);
    },
  );
});
