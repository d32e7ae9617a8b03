import { existsSync, readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { type FormValues, file } from '../../support/form.mjs';
import { sharedServer } from '../../support/server.js';
import { type Entry, zip, zipOf } from '../../support/zip.mjs';

const server = sharedServer({ flags: ['--max-upload-size', '1MiB', '--max-file-size', '1MiB'] });
const { api } = server;

/** Uploaded archives may extract to ten times the largest upload. */
const bound = 10 * 2 ** 20;

/** The values of a flag, paths without their directories. */
async function given(operation: string, form: FormValues, flag: string): Promise<[string, unknown][]> {
  const { files } = await api.probe(operation, form);
  return (files[flag]?.flat() ?? []).map(([path, content]) => [
    path.slice(path.lastIndexOf('/') + 1),
    content,
  ]);
}

const series = zipOf({ '0001.dcm': 'one', 'more/0002.dcm': 'two', 'é.dcm': 'three' });
const tree = { '0001.dcm': 'one', more: { '0002.dcm': 'two' }, 'é.dcm': 'three' };

describe('a directory volume', () => {
  test('A directory volume is extracted, and passed to the app as one directory', async () => {
    const inputs = [file('scan.konfaidir.zip', series), file('ct.nii', 'plain')];
    expect(await given('infer', { inputs }, '--inputs')).toEqual([
      ['scan', tree],
      ['ct.nii', 'plain'],
    ]);
  });

  test('A directory volume is accepted for every file field, even several with the same name', async () => {
    const volume = file('store.zarr.konfaidir.zip', series);
    const form = { inputs: [volume, volume], gt: volume, mask: volume };
    expect(await given('evaluate', form, '--inputs')).toEqual([
      ['store.zarr', tree],
      ['store_1.zarr', tree],
    ]);
    expect(await given('evaluate', form, '--mask')).toEqual([['store.zarr', tree]]);
  });

  test('A directory volume with another suffix is an ordinary file', async () => {
    const inputs = file('scan.zip', series);
    expect(await given('infer', { inputs }, '--inputs')).toEqual([['scan.zip', series.toString('latin1')]]);
  });

  test('A directory volume without a name of its own is refused', async () => {
    const refused = await api.refused('infer', { inputs: file('.konfaidir.zip', series) });
    expect(refused).toEqual([422, expect.stringContaining("'inputs'")]);
  });
});

describe('a data set', () => {
  test('A data set is extracted, and passed to the app as its directory', async () => {
    const form = { dataset: file('anything', series) };
    expect(await given('fine_tune', form, '--dataset')).toEqual([['dataset', tree]]);
  });

  test('A data set may have been made on Windows, or have an entry for itself', async () => {
    const archive = zipOf({
      './': '',
      './0001.dcm': 'one',
      'more\\': '',
      'more\\0002.dcm': 'two',
      'é.dcm': 'three',
    });
    const form = { dataset: file('data.zip', archive) };
    expect(await given('fine_tune', form, '--dataset')).toEqual([['dataset', tree]]);
  });

  test('A data set that was packed on a Mac loses what macOS has added', async () => {
    const archive = zipOf({
      '0001.dcm': 'one',
      'more/0002.dcm': 'two',
      'é.dcm': 'three',
      '.DS_Store': 'Bud1',
      'more/._0002.dcm': 'fork',
      '__MACOSX/': '',
      '__MACOSX/more/._0002.dcm': 'fork',
    });
    const form = { dataset: file('data.zip', archive) };
    expect(await given('fine_tune', form, '--dataset')).toEqual([['dataset', tree]]);
  });

  test('A data set of an unsupported archive type is refused with advice', async () => {
    const dataset = file('data.zip', zip([{ name: 'a', content: 'abc', method: 9 }]));
    expect(await api.refused('fine_tune', { dataset })).toEqual([
      400,
      "Archive 'data.zip' cannot be extracted: its entry 'a' is compressed with Deflate64, which is not supported; " +
        "make the archive again with Deflate, as 'zip -r' does",
    ]);
  });
});

describe('a data set on a server that has a limit for data sets', () => {
  const most = 3 * 2 ** 20;
  const flags = ['--max-upload-size', '1MiB', '--max-file-size', '1MiB', '--max-dataset-size', String(most)];
  const roomy = sharedServer({ flags });
  /** An archive that is as large as what is in it, which is a few bytes of zip more than its content. */
  const stored = (size: number) => zip([{ name: 'noise', content: Buffer.alloc(size) }]);
  const advice = expect.stringContaining('--max-dataset-size');

  test('A data set on a server that has a limit for data sets may be larger than any other file, in its archive and extracted', async () => {
    const { job_id } = await roomy.api.accepted('fine_tune', { dataset: file('data.zip', stored(2 ** 21)) });
    expect((await roomy.api.ended(job_id)).view.status).toBe('done');
  });

  test('A data set on a server that has a limit for data sets is refused where its archive or what it extracts to is larger than that', async () => {
    const dataset = file('data.zip', stored(most));
    expect(await roomy.api.refused('fine_tune', { dataset })).toEqual([413, advice]);
    const bomb = zip([{ name: 'zeros', content: Buffer.alloc(most + 1), deflated: true }]);
    expect(bomb.length).toBeLessThan(2 ** 20);
    expect(await roomy.api.refused('fine_tune', { dataset: file('data.zip', bomb) })).toEqual([413, advice]);
  });

  test('A data set on a server that has a limit for data sets leaves the limits of other operations as they are', async () => {
    const inputs = file('scan.konfaidir.zip', stored(2 ** 21));
    expect((await roomy.api.refused('infer', { inputs }))[0]).toBe(413);
    const volume = zip([{ name: 'zeros', content: Buffer.alloc(most + 1), deflated: true }]);
    const { job_id } = await roomy.api.accepted('infer', { inputs: file('scan.konfaidir.zip', volume) });
    expect((await roomy.api.ended(job_id)).view.status).toBe('done');
  });

  test('A limit for data sets is listed among the limits of the server', async () => {
    expect(await roomy.api.json('/limits')).toMatchObject({ max_dataset_size: most });
    expect(await api.json('/limits')).toMatchObject({ max_dataset_size: null });
  });
});

describe('an archive', () => {
  const noise = (size: number, entry: Partial<Entry> = {}): Entry => ({
    name: 'zeros',
    content: Buffer.alloc(size),
    deflated: true,
    ...entry,
  });

  test.for<[string, number, Buffer<ArrayBuffer>]>([
    ['that climbs out', 400, zip([{ name: '../../evil', content: 'x' }])],
    ['that climbs out from deeper', 400, zip([{ name: 'a/../../../evil', content: 'x' }])],
    ['with an absolute name', 400, zip([{ name: '/tmp/remote-app-evil', content: 'x' }])],
    ['with a drive letter', 400, zip([{ name: 'C:/evil', content: 'x' }])],
    ['that climbs out by backslashes', 400, zip([{ name: '.\\..\\..\\evil', content: 'x' }])],
    ['with a link', 400, zip([{ name: 'link', content: '/etc', mode: 0o120777 }])],
    ['with one name twice', 400, zip([{ name: 'a' }, { name: 'a' }])],
    ['with a damaged file', 400, zip([{ name: 'a', content: 'abc', crc: 1 }])],
    ['with a password', 400, zip([{ name: 'a', content: 'abc', flags: 1 }])],
    ['that is none', 400, Buffer.from('not a zip archive at all')],
    ['that is empty', 400, Buffer.alloc(0)],
    ['that is cut', 400, series.subarray(0, series.length - 30)],
    ['that states to be too large', 413, zip([noise(bound + 1)])],
    ['that lies about its size', 413, zip([noise(bound + 1, { statedSize: 10 })])],
    ['of many that together are too large', 413, zip([noise(bound), noise(1, { name: 'last' })])],
    [
      'with more directories than the limit',
      413,
      zip(Array.from({ length: 2000 }, (_, index) => ({ name: `${index}/${'d/'.repeat(59)}` }))),
    ],
  ])('An archive %s is refused with %i', async ([, status, archive]) => {
    const before = readdirSync(server.scratch).sort();
    for (const [operation, form] of [
      ['infer', { inputs: file('scan.konfaidir.zip', archive) }],
      ['fine_tune', { dataset: file('data.zip', archive) }],
    ] as const) {
      expect(await api.refused(operation, form)).toEqual([status, expect.stringContaining('.zip')]);
    }
    expect(readdirSync(server.scratch).sort()).toEqual(before);
    expect(existsSync('/tmp/remote-app-evil')).toBe(false);
    const { jobs } = await api.json<{ jobs: unknown[] }>('/jobs');
    expect(server.jobDirectories().length).toBe(jobs.length);
  });

  test('An archive may extract to exactly the limit together with others, and not to more', async () => {
    const [half, more] = [bound / 2, bound / 2 + 1].map((size) => zip([noise(size)]));
    const form = (second: Buffer<ArrayBuffer> = series) => ({
      inputs: [file('a.konfaidir.zip', half ?? series), file('b.konfaidir.zip', second)],
    });
    const { job_id } = await api.accepted('infer', form(half));
    expect((await api.ended(job_id)).view.status).toBe('done');
    const detail = expect.stringMatching(
      /^Archive 'b.konfaidir.zip' cannot be extracted: .* limit of 5242880$/,
    );
    expect(await api.refused('infer', form(more))).toEqual([413, detail]);
  });
});
