import type { DicomHeader } from '@remote-app/volumes/headers';
import { describe, expect, test } from 'vitest';
import { type DicomFile, groupSeries } from '../../../src/imaging/inputs/series.js';

/** An axial image at a place along the normal; its UID is that of its file. */
const image = (path: string, depth: number | null, more: Partial<DicomHeader> = {}): DicomFile => ({
  ...{ path, size: 10 },
  header: {
    ...{
      seriesUid: '1',
      studyUid: '1',
      patient: 'A',
      instanceUid: path,
      sopClass: '',
      modality: 'MR',
      seriesNumber: 3,
      description: 'T1',
    },
    ...{ instanceNumber: null, rows: 4, columns: 5, frames: 1, orientation: [1, 0, 0, 0, 1, 0] },
    ...{ position: depth === null ? null : [0, 0, depth], ...more },
  },
});
const stack = (depths: readonly number[], more: (at: number) => Partial<DicomHeader> = () => ({})) =>
  depths.map((depth, at) => image(`/in/${at}`, depth, more(at)));
const remarksOn = (files: readonly DicomFile[]) =>
  groupSeries(files).map(({ remarks }) => remarks.join(' | '));

describe('a series', () => {
  test('A series has a plane if it is nearly straight', () => {
    const plane = (...orientation: number[]) =>
      groupSeries([image('/in/a', 0, { orientation: orientation.length > 0 ? orientation : null })])[0]
        ?.plane;
    expect([plane(1, 0, 0, 0, 1, 0), plane(1, 0, 0, 0, 0, -1), plane(0, 1, 0, 0, 0, -1)]).toEqual([
      'axial',
      'coronal',
      'sagittal',
    ]);
    expect([plane(1, 0, 0, 0, 0.8, 0.6), plane()]).toEqual(['oblique', null]);
  });

  test('A series is what its headers say, its files as they are, and the order of their places', () => {
    const files = [image('/in/b', 2), image('/in/a', 0, { columns: 9 }), image('/in/c', 1)];
    expect(groupSeries(files)).toEqual([
      {
        ...{
          path: '/in',
          isFile: false,
          number: 3,
          description: 'T1',
          modality: 'MR',
          patient: 'A',
          person: '',
          images: 3,
        },
        files: ['b', 'a', 'c'].map((name) => ({ name, path: `/in/${name}`, size: 10 })),
        order: [1, 2, 0],
        size: [5, 4, 3],
        plane: 'axial',
        remarks: [],
      },
    ]);
    const bare = { seriesNumber: null, description: '', modality: null, rows: null, orientation: null };
    expect(groupSeries([image('/in/a', 0, { ...bare, frames: 7 })])).toMatchObject([
      { isFile: true, number: null, description: '', modality: '', size: [], plane: null, order: [0] },
    ]);
    expect(groupSeries([{ path: '/in/a', size: 1, header: null }])).toMatchObject([
      { isFile: false, images: 1, size: [], number: null },
    ]);
  });

  test('A series without positions has its images in the order of their numbers', () => {
    const numbers = [3, null, 1];
    const of = (more: (at: number) => Partial<DicomHeader>) =>
      groupSeries(stack([2, 1, 0], (at) => ({ instanceNumber: numbers[at] ?? null, ...more(at) })))[0]?.order;
    expect(of(() => ({}))).toEqual([2, 1, 0]);
    expect(of((at) => (at === 1 ? { position: null } : {}))).toEqual([1, 2, 0]);
    // Of more than one orientation, as those of a localiser.
    expect(of((at) => (at === 1 ? { orientation: [1, 0, 0, 0, 0.98, 0.02] } : {}))).toEqual([1, 2, 0]);
    expect(of((at) => (at === 1 ? { orientation: [0.98, -0.2, 0, 0, 0.98, -0.2] } : {}))).toEqual([1, 2, 0]);
    expect(of((at) => (at === 1 ? { orientation: [1, 0, 0, 0, 0.999, 0.009] } : {}))).toEqual([2, 1, 0]);
  });

  test('A series has one UID, or one directory if there is no UID, and a file that is one by itself is its own series', () => {
    const series = (files: readonly DicomFile[]) =>
      groupSeries(files).map(({ path, images, number }) => `${path} ${images} ${number}`);
    expect(
      series([
        image('/in/b/1', 0, { seriesUid: '2', seriesNumber: 9 }),
        image('/in/b/2', 0, { seriesUid: '1', seriesNumber: 2 }),
        image('/in/a/1', 1, { seriesUid: null, seriesNumber: 1 }),
        { path: '/in/a/2', size: 1, header: null },
        image('/in/a/3', 1, { modality: 'DX', seriesUid: '2', seriesNumber: 5 }),
      ]),
    ).toEqual(['/in/a 1 null', '/in/a 1 1', '/in/a 1 5', '/in/b 1 2', '/in/b 1 9']);
    // Of several directories, it is that above them.
    expect(series([image('/in/a/x/1', 0), image('/in/a/y/1', 1)])).toEqual(['/in/a 2 3']);
    expect(series([image('/1', 0), image('/in/1', 1)])).toEqual(['/ 2 3']);
    expect(series([image('1', 0), image('a/1', 1)])).toEqual(['. 2 3']);
    // Different images under one UID, in two directories, are two series.
    const twice = { instanceUid: 'x' };
    expect(series([image('/a/1', 0, twice), image('/b/1', 1, twice), image('/b/2', 2)])).toEqual([
      '/a 1 3',
      '/b 2 3',
    ]);
    expect(series([image('/a/1', 0, twice), image('/a/2', 1, twice)])).toEqual(['/a 2 3']);
    const unnamed = { instanceUid: null };
    expect(series([image('/a/1', 0, unnamed), image('/b/1', 1, unnamed)])).toEqual(['/ 2 3']);
  });

  test.each(['CR', 'DX', 'MG', 'IO', 'PX', 'RF', 'XA', 'US', 'OP', 'ES', 'XC', 'GM', 'SM', 'DG'])(
    'Each image is a series of its own for some modalities: %s',
    (modality) => {
      const counts = (of: string) =>
        groupSeries(stack([0, 1], () => ({ modality: of }))).map(({ images, isFile }) => [images, isFile]);
      expect([counts(modality), counts('CT')]).toEqual([
        [
          [1, true],
          [1, true],
        ],
        [[2, false]],
      ]);
    },
  );

  test('Gaps in a series are reported by the numbers or positions of the images, at most five of them', () => {
    const numbered = (at: number) => ({ instanceNumber: at + 1 });
    expect(remarksOn(stack([0, 2, 4, 6]))).toEqual(['']);
    expect(remarksOn(stack([0, 2, 4, 8], numbered))).toEqual([
      'lacks 1 slice of an even spacing, between 3 and 4',
    ]);
    expect(remarksOn(stack([0, 2, 4, 6, 10.3, 16.3]))).toEqual([
      'lacks 3 slices of an even spacing, between 6.0 mm and 10.3 mm, 10.3 mm and 16.3 mm',
    ]);
    // Too few, or too unevenly spaced, to say that one is missing.
    expect(remarksOn(stack([0, 2, 6]))).toEqual(['']);
    expect(remarksOn(stack([0, 2, 4, 7]))).toEqual(['']);
    const depths = Array.from({ length: 22 }, (_, at) => at + Math.floor(at / 3));
    expect(remarksOn(stack(depths, numbered))).toEqual([
      'lacks 7 slices of an even spacing, between 3 and 4, 6 and 7, 9 and 10, 12 and 13, 15 and 16, and 2 more gaps',
    ]);
    expect(remarksOn(stack(depths.slice(0, 16), numbered))).toEqual([
      expect.stringMatching(/^lacks 5 slices .*, 15 and 16$/),
    ]);
    expect(remarksOn(stack([0, 0, 2, 2, 4]))).toEqual([
      'has 5 images at 3 positions, such as echoes, b-values or two acquisitions',
    ]);
  });
});
