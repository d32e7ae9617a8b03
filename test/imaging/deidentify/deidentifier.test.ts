import { readFileSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import type { Mode } from '../../../src/client/outgoing.js';
import { fieldWithRole, operationOf } from '../../../src/contract/index.js';
import { Deidentifier } from '../../../src/imaging/deidentify/deidentifier.js';
import { NeutralNames } from '../../../src/imaging/deidentify/names.js';
import { findFiles } from '../../../src/imaging/inputs/index.js';
import { bytesOf } from '../../client/support/outgoing.js';
import * as canary from '../../support/canary-volumes.js';
import { dicomFile, type Element, element } from '../../support/dicom-files.js';
import { plant, temporary } from '../../support/temporary.js';
import { zarrStore } from '../../support/zarr.js';
import { parsed } from './cleaned.js';

const word = 'Quokkavale';
const field = fieldWithRole(operationOf('infer'), 'paths');

/** The files of paths, how they leave, and what is told of them. */
async function prepared(
  files: Readonly<Record<string, string | Buffer>>,
  paths: readonly string[],
  mode: Mode,
) {
  await using directory = await temporary();
  await plant(directory.path, files);
  const groups = [paths.map((each) => path.join(directory.path, each))];
  const found = await findFiles({ files: [{ field, groups }], archive: null });
  const names = new NeutralNames(found, mode === 'full', new Set());
  const deidentifier = new Deidentifier(mode, new Set(), Buffer.alloc(32, 7));
  let made = 0;
  const work = { newFile: async () => path.join(directory.path, `made-${++made}`), onBytes: () => {} };
  const told: (readonly string[])[] = [];
  const tally = { add: ({ removed }: { removed: readonly string[] }) => told.push(removed) };
  const sent = new Map<string, Buffer | null>();
  const sizes: (readonly [number, number])[] = [];
  for (const unit of found.volumes.flatMap((each) => each.groups.flat())) {
    if (unit.kind === 'file') {
      const cleaned = await deidentifier.prepare(unit, names, work, tally);
      const size = await deidentifier.describe(unit, names, work, { add: () => {} });
      sizes.push([cleaned?.size ?? readFileSync(unit.path).length, size]);
      sent.set(names.nameOf(unit), cleaned && bytesOf(cleaned as Parameters<typeof bytesOf>[0]));
    } else {
      for (const each of await deidentifier.filesTogether(unit, work, tally)) {
        const pieces = await each.pieces?.();
        const part = { path: each.path, pieces } as Parameters<typeof bytesOf>[0];
        sent.set(`${names.nameOf(unit)}/${each.name}`, bytesOf(part));
      }
    }
  }
  return { sent, told, sizes };
}

describe('neutral names only', () => {
  test('A header gets the new names of its voxel files, and content that needs no change is sent unchanged', async () => {
    const files = {
      'a.mhd': canary.metaText(word, 'a.raw', `HeaderSize = ${word.length}\n`),
      'a.raw': Buffer.concat([Buffer.from(word), canary.voxels, Buffer.from(word)]),
      'b.nhdr': canary.nrrdText(word, 'raw', 'data file: b.raw\n'),
      'b.raw': canary.voxels,
      'c.nii': canary.nifti(word),
      'd.hdr': canary.niftiHeader(word, { isPair: true }),
      'd.img': canary.voxels,
      'e.nrrd': canary.nrrd(word),
    };
    const { sent, told, sizes } = await prepared(files, Object.keys(files), 'names');
    const asItIs = [...sent].filter(([, bytes]) => bytes === null).map(([name]) => name);
    expect([...sent.keys()].toSorted()).toEqual(
      ['1.mhd', '1.raw', '2.nhdr', '2.raw', '3.nii', '4.hdr', '4.img', '5.nrrd'].map(
        (end) => `case-000${end}`,
      ),
    );
    expect(asItIs.toSorted()).toEqual(['3.nii', '4.hdr', '4.img', '5.nrrd'].map((end) => `case-000${end}`));
    expect(sent.get('case-0001.mhd')?.toString()).toMatch(/ElementDataFile = case-0001\.raw\n$/);
    expect(sent.get('case-0002.nhdr')?.toString()).toMatch(/\ndata file: case-0002\.raw\n\n$/);
    expect([sent.get('case-0001.raw'), sent.get('case-0002.raw')]).toEqual([canary.voxels, canary.voxels]);
    expect(told).toHaveLength(4);
    expect(sizes.filter(([size, described]) => size !== described)).toEqual([]);
  });

  test('DICOM and stores are sent as they are, and gzip loses its header', async () => {
    const slice = (at: number) =>
      dicomFile({
        ...{ pixels: new Int16Array(16), size: [4, 4], position: [0, 0, at] },
        more: [element(0x00080018, 'UI', `1.2.3.${at}`), element(0x00100010, 'PN', word)],
      });
    const files = {
      's/2.dcm': slice(1),
      's/1.dcm.gz': canary.gzipWithWords(slice(2), word),
      'x.dcm.gz': canary.gzipWithWords(slice(3), word),
      ...zarrStore('ada.zarr'),
    };
    const { sent, told } = await prepared(files, ['s', 'x.dcm.gz', 'ada.zarr'], 'names');
    const [first, second, single, ...store] = [...sent];
    expect([first, second, single].map((each) => each?.[0])).toEqual([
      ...['case-0001/0001.dcm', 'case-0001/0002.dcm.gz', 'case-0002.dcm.gz'],
    ]);
    expect(first?.[1]).toEqual(files['s/2.dcm']);
    expect(gunzipSync(second?.[1] ?? '')).toEqual(slice(2));
    expect(second?.[1]?.includes(`${word}.nii`)).toBe(false);
    expect(gunzipSync(single?.[1] ?? '')).toEqual(slice(3));
    expect(told).toEqual([['the header of gzip']]);
    expect(store.map(([name]) => name).every((name) => name.startsWith('case-0003.zarr/'))).toBe(true);
    expect(store).toHaveLength(Object.keys(zarrStore('ada.zarr')).length);
  });
});

describe('full de-identification', () => {
  const slice = (at: number, more: readonly Element[] = []) =>
    dicomFile({
      ...{ pixels: new Int16Array(16), size: [4, 4], position: [0, 0, at] },
      more: [element(0x00080018, 'UI', `1.2.3.${at}`), element(0x00100010, 'PN', word), ...more],
    });

  test('De-identified slices are named by their numbers in the series and unpacked, and each one is reported', async () => {
    const files = {
      ...{ 's/1.dcm': slice(2), 's/3.dcm.gz': gzipSync(slice(1)), 's/2.dcm': slice(3) },
      's/4.dcm.gz': gzipSync(slice(4)),
    };
    const { sent, told } = await prepared(files, ['s'], 'full');
    expect([...sent.keys()]).toEqual([1, 2, 3, 4].map((number) => `case-0001/000${number}.dcm`));
    const places = [...sent.values()].map((bytes) => parsed(bytes ?? Buffer.alloc(0)).string('x00200032'));
    expect(places).toEqual(['0\\0\\1', '0\\0\\2', '0\\0\\3', '0\\0\\4']);
    const areTold = told.map((removed) => removed.includes('PatientName (0010,0010)'));
    expect(areTold).toEqual([true, true, true, true]);
  });

  test('A store is refused, and so is DICOM that shows a person, even if it is packed', async () => {
    await expect(prepared(zarrStore('ada.zarr'), ['ada.zarr'], 'full')).rejects.toThrow(
      /ada\.zarr' cannot be de-identified: it is a store of OME-Zarr\. Give /,
    );
    const burned = slice(1, [element(0x00280301, 'CS', 'YES')]);
    await expect(prepared({ 'x.dcm.gz': gzipSync(burned) }, ['x.dcm.gz'], 'full')).rejects.toMatchObject({
      ...{ name: 'ClientError', exitCode: 2, details: { refusal: 'burned-in' } },
    });
  });

  test('The reported size is the one that is sent, except for files that are repacked', async () => {
    const packed = canary.gzipWithWords(canary.nifti(word), word);
    const files = { 'a.nii': canary.nifti(word), 'b.nii.gz': packed, 'c.dcm': slice(1) };
    const { sizes, told } = await prepared(files, Object.keys(files), 'full');
    expect(sizes.map(([size, described]) => size - described === 0)).toEqual([true, false, true]);
    expect([sizes[1]?.[1], told.length]).toEqual([packed.length, 3]);
  });
});

describe('repacked files', () => {
  const of = (file: string) =>
    ({
      ...{ kind: 'file', path: file, name: path.basename(file), size: 1, format: null },
      ...{ isHalf: false, headers: [] },
    }) as unknown as Parameters<Deidentifier['prepare']>[0];
  const names = { nameOfPath: () => null } as unknown as NeutralNames;

  test('Repacked files are counted, and are no longer made after an interruption', async () => {
    await using directory = await temporary();
    const nifti = canary.gzipWithWords(canary.nifti(word), word);
    const slice = dicomFile({ pixels: new Int16Array(16), size: [4, 4], position: [0, 0, 0] });
    await plant(directory.path, { 'a.nii.gz': nifti, 'b.dcm.gz': gzipSync(slice) });
    const deidentifier = new Deidentifier('full', new Set(), Buffer.alloc(32, 7));
    let made = 0;
    let bytes = 0;
    const work = (signal?: AbortSignal) => ({
      newFile: async () => path.join(directory.path, `made-${++made}`),
      onBytes: (count: number) => {
        bytes = count;
      },
      signal,
    });
    const prepare = (name: string, signal?: AbortSignal) =>
      deidentifier.prepare(of(path.join(directory.path, name)), names, work(signal));
    await prepare('a.nii.gz');
    expect(bytes).toBe(canary.nifti(word).length);
    const reason = new Error('Enough');
    for (const name of ['a.nii.gz', 'b.dcm.gz'])
      await expect(prepare(name, AbortSignal.abort(reason)), name).rejects.toSatisfy(
        (error: Error) => error === reason || error.cause === reason,
      );
  });

  test('A repacked file has all of its content, however long it is', async () => {
    await using directory = await temporary();
    const content = Buffer.alloc(200_000, 'voxels');
    await plant(directory.path, { 'a.nii.gz': gzipSync(content, { level: 0 }) });
    const file = path.join(directory.path, 'a.nii.gz');
    const deidentifier = new Deidentifier('names', new Set(), Buffer.alloc(32, 7));
    const work = { newFile: async () => '', onBytes: () => {} };
    const cleaned = await deidentifier.prepare(of(file), names, work);
    const sent = bytesOf(cleaned as Parameters<typeof bytesOf>[0]);
    expect(gunzipSync(sent).equals(content)).toBe(true);
  });
});
