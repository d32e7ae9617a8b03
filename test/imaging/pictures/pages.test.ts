import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { inflateRawSync } from 'node:zlib';
import type { Affine, VolumeFile } from '@remote-app/volumes';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { htmlPage, type PageOptions } from '../../../src/imaging/pictures/html.js';
import type { DrawnCase } from '../../../src/imaging/pictures/picture.js';
import { readJpeg } from '../../support/jpeg.js';
import { temporary } from '../../support/temporary.js';
import { viewOf as viewCase, volumeOf } from './phantom.js';

const size = [2, 3, 4] as const;
const bytes = (values: (at: number) => number) => Uint8Array.from({ length: 24 }, (_, at) => values(at));
const named = (name: string, more: object = {}) => ({ path: `/data/${name}`, ...more });
const options = { slices: 1, maxPixels: 8 };

describe('a case', () => {
  test('A case of a scan and a segmentation is drawn as its arrays say', async () => {
    const scan = volumeOf(
      // What is drawn of them is between 0 and 255.
      bytes((at) => (at === 22 ? 255 : at * 10)),
      size,
      named('scan.nii'),
    );
    const mask = volumeOf(
      bytes((at) => (at === 12 ? 5 : at > 20 ? 3 : 0)),
      size,
      named('mask.nii'),
    );
    const terminology = { '3': { name: 'cyst', color: '#010203' } };
    const view = await viewCase({ name: 'a', scan, mask, terminology }, options);
    // Slices from the feet, with the patient's right on the left, and his front above.
    const slice = (position: number, width: number, height: number, pixels: number[], labels: number[]) => ({
      ...{ position, width, height, isColour: false },
      pixels: Uint8Array.from(pixels),
      labels: Uint8Array.from(labels),
    });
    const marks = (text: string) => {
      const [left, right, top, bottom] = text;
      return { left, right, top, bottom };
    };
    expect(view).toEqual({
      ...{ name: 'a', pixel: 1, window: { low: 0, high: 255, unit: null }, notes: [] },
      labels: [
        { index: 1, value: 3, name: 'cyst', colour: [1, 2, 3], voxels: 3, millilitres: 0.003 },
        { index: 2, value: 5, name: 'label 5', colour: [86, 180, 233], voxels: 1, millilitres: 0.001 },
      ],
      planes: [
        {
          ...{ name: 'axial', marks: marks('RLAP'), best: 0 },
          slices: [slice(2, 2, 3, [170, 160, 150, 140, 130, 120], [0, 0, 0, 0, 0, 2])],
        },
        {
          ...{ name: 'coronal', marks: marks('RLSI'), best: 0 },
          slices: [slice(0, 2, 4, [190, 180, 130, 120, 70, 60, 10, 0], [0, 0, 0, 2, 0, 0, 0, 0])],
        },
        {
          ...{ name: 'sagittal', marks: marks('APSI'), best: 0 },
          slices: [
            slice(
              ...[0, 3, 4],
              [255, 200, 180, 160, 140, 120, 100, 80, 60, 40, 20, 0],
              [1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0],
            ),
          ],
        },
      ],
    });
  });

  test('A case has notes about what a person should know', async () => {
    const notesOf = async (scan: VolumeFile | null, mask: VolumeFile | null, more: object = {}) =>
      (await viewCase({ name: 'a', scan, mask, ...more }, options)).notes;
    const scan = (more: object) =>
      volumeOf(
        bytes((at) => at),
        size,
        named('s.nii', more),
      );
    const mask = (more: object = {}) =>
      volumeOf(
        bytes((at) => at % 2),
        size,
        named('m.nii', more),
      );
    expect(await notesOf(null, mask())).toEqual(['No scan was found for it']);
    expect(await notesOf(scan({ hasOrientation: false }), null)).toEqual([
      's.nii does not say which way its axes point: left and right may be swapped',
    ]);
    const contradiction = (name: string) =>
      `The sform and the qform of ${name} contradict each other in left and right: it is drawn by its sform, and programs that read the qform show it mirrored`;
    expect(
      await notesOf(scan({ hasContradictorySides: true }), mask({ hasContradictorySides: true })),
    ).toEqual(['s.nii', 'm.nii'].map(contradiction));
    const turned = (degrees: number): Affine => {
      const [c, s] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
      return [
        [c, -s, 0, 0],
        [s, c, 0, 0],
        [0, 0, 1, 0],
      ];
    };
    expect(await notesOf(scan({ affine: turned(10.4) }), null)).toEqual([
      'Oblique by 10 degrees: drawn along its own axes',
    ]);
    expect(await notesOf(scan({ affine: turned(1.5) }), null)).toEqual([]);
    const sheared: Affine = [
      [1, 0, Math.sin(0.1), 0],
      [0, 1, 0, 0],
      [0, 0, Math.cos(0.1), 0],
    ];
    expect(await notesOf(scan({ affine: sheared }), null)).toEqual([
      'Slices of s.nii are tilted by 6 degrees against each other: the planes across them are drawn as if they were straight',
    ]);
    const twice = volumeOf(new Uint8Array(48), size, named('m.nii', { frames: 2 }));
    expect((await notesOf(scan({}), twice))[0]).toBe('m.nii holds 2 volumes: number 1 is shown');
    // Fewer than were asked for: the last one.
    const last = await viewCase({ name: 'a', scan: scan({}), mask: twice }, { ...options, frame: 9 });
    expect(last.notes[0]).toBe('m.nii holds 2 volumes: number 2 is shown');
  });

  test('A case has the labels of the frame that is shown, even on another grid, and the slice of a single voxel', async () => {
    const scan = volumeOf(
      bytes((at) => at),
      size,
    );
    const data = new Uint8Array(48).fill(1).fill(2, 24);
    const affine: Affine = [
      [1, 0, 0, 0.2],
      [0, 1, 0, 0],
      [0, 0, 1, 0],
    ];
    for (const more of [{}, { affine }]) {
      const mask = volumeOf(data, size, { frames: 2, ...more });
      const view = await viewCase({ name: 'a', scan, mask }, { ...options, frame: 1 });
      expect(view.labels.map(({ value }) => value)).toEqual([2]);
      expect(new Set(view.planes[0].slices[0]?.labels)).toEqual(new Set([1]));
    }
    const voxel = volumeOf(Uint8Array.of(7), [1, 1, 1]);
    const { planes } = await viewCase({ name: 'a', scan: voxel, mask: null }, options);
    expect(planes.map(({ slices }) => slices.map(({ width, height }) => [width, height]))).toEqual(
      Array(3).fill([[1, 1]]),
    );
  });

  test('A case that cannot be drawn says why', async () => {
    const view = (scan: VolumeFile | null, mask: VolumeFile | null) =>
      viewCase({ name: 'a', scan, mask }, options);
    await expect(view(null, null)).rejects.toThrow('a has neither a scan nor a segmentation.');
    const scan = volumeOf(
      bytes((at) => at),
      size,
    );
    const colours = volumeOf(new Uint8Array(72).fill(1), size, named('m.nii', { components: 3 }));
    await expect(view(scan, colours)).rejects.toThrow(
      'm.nii holds no labels but colours: give it without the scan to look at it.',
    );
    const flat = [
      [0, 0, 0, 0],
      [0, 0, 0, 0],
      [0, 0, 0, 0],
    ] as const;
    await expect(
      view(
        scan,
        volumeOf(
          bytes(() => 1),
          size,
          named('m.nii', { affine: flat }),
        ),
      ),
    ).rejects.toThrow('m.nii has axes without a direction.');
  });

  test('A case in colour ignores transparency', async () => {
    const rgba = Uint8Array.from({ length: 24 * 4 }, (_, at) => [9, 8, 7, 255][at % 4] ?? 0);
    const view = await viewCase(
      { name: 'a', scan: volumeOf(rgba, size, { components: 4 }), mask: null },
      options,
    );
    const [slice] = view.planes[0].slices;
    expect([view.window, slice?.isColour, [...(slice?.pixels ?? [])]]).toEqual([
      null,
      true,
      Array(6).fill([9, 8, 7]).flat(),
    ]);
  });
});

describe('a page', () => {
  const textOf = async (cases: readonly DrawnCase[], more: Partial<PageOptions> = {}) => {
    let text = '';
    for await (const piece of htmlPage(cases, {
      title: 'a <b>',
      csvName: 'a.csv',
      hasVolumes: false,
      ...more,
    }))
      text += piece;
    return text;
  };
  const blockIn = (page: string, id: string) =>
    new RegExp(`id="${id}">([^<]*)</script>`).exec(page)?.[1] ?? '';
  const viewOf = (mask: Uint8Array | null, more: object = {}) =>
    viewCase(
      {
        name: 'x',
        scan: volumeOf(
          bytes(() => 7),
          size,
          more,
        ),
        mask: mask && volumeOf(mask, size),
      },
      options,
    );

  test('A page has each case with its layers and remarks, and its pictures once', async () => {
    const view = await viewOf(bytes((at) => (at === 0 ? 1 : 0)));
    const plain = await viewOf(null, { isInverted: true });
    const page = await textOf([
      {
        ...{ name: '</script>', notes: ['one'], status: null },
        layers: [
          { name: 'mask', view, scan: null, mask: null },
          { name: 'scan', view: plain, scan: null, mask: null },
        ],
      },
      { name: 'b', layers: [], notes: ['It failed'], status: 'failed' },
    ]);
    const { layers, ...first } = JSON.parse(blockIn(page, 'case-0'));
    expect({ ...first, pictures: first.pictures.length }).toEqual({ notes: ['one'], pictures: 3 });
    const plane = (marks: string, width: number, height: number, place: string, image: number) => ({
      marks: Object.fromEntries(['left', 'right', 'top', 'bottom'].map((side, at) => [side, marks[at]])),
      ...{ best: 0, width, height, places: [place], images: [image] },
    });
    const planes = [
      plane('RLAP', 2, 3, '0 mm', 0),
      plane('RLSI', 2, 4, '0 mm', 1),
      plane('APSI', 3, 4, '0 mm', 2),
    ];
    const [marked, unmarked] = layers;
    const label = { name: 'label 1', value: 1, colour: [230, 159, 0], voxels: 1, volume: '0.001 ml' };
    expect({ ...marked, planes: marked.planes.map((each: object) => ({ ...each, labels: null })) }).toEqual({
      ...{ name: 'mask', pixel: 1, window: 'black 6, white 8', notes: [], labels: [label] },
      planes: planes.map((each) => ({ ...each, labels: null })),
    });
    const [axial] = marked.planes;
    expect([...inflateRawSync(Buffer.from(axial.labels, 'base64'))]).toEqual([0, 0, 0, 0, 0, 1]);
    expect(unmarked).toMatchObject({ window: 'black 8, white 6', isInverted: true, labels: null });
    const shown = unmarked.planes.map((each: { labels: unknown; images: number[] }) => [
      each.labels,
      each.images,
    ]);
    expect(shown).toEqual([0, 1, 2].map((image) => [null, [image]]));
    const { width, height, data } = await readJpeg(Buffer.from(first.pictures[1], 'base64'));
    expect([width, height, data[0]]).toEqual([2, 4, 128]);
    expect(JSON.parse(blockIn(page, 'case-1'))).toEqual({ notes: ['It failed'], layers: [], pictures: [] });
    const { id, ...about } = JSON.parse(blockIn(page, 'page'));
    expect(about).toEqual({
      ...{
        title: 'a <b>',
        csvName: 'a.csv',
        names: ['</script>', 'b'],
        failed: [false, true],
        hasVolumes: false,
      },
    });
    expect(id).toMatch(/^[0-9a-f]{32}$/);
    expect(page).toContain('<title>a &#60;b&#62;</title>');
    expect(page).toMatch(/^<!doctype html>\n<html lang="en">\n[\s\S]*<\/html>\n$/);
    const [, policy = ''] = /Content-Security-Policy" content="([^"]*)"/.exec(page) ?? [];
    expect(policy.replaceAll(/&#39;sha256-[^&]*&#39;/g, 'HASH').replaceAll('&#39;', "'")).toBe(
      "default-src 'none'; img-src data:; style-src HASH; script-src HASH; base-uri 'none'; form-action 'none'",
    );
  });

  test('A page embeds packed volumes unchanged, and converts others', async () => {
    await using directory = await temporary();
    const file = path.join(directory.path, 'a.nii.GZ');
    // More than is read at once.
    writeFileSync(file, Buffer.alloc((3 << 20) + 100, 'packed already'));
    onTestFinished(() => {
      vi.unstubAllEnvs();
    });
    vi.stubEnv('TMPDIR', directory.path);
    const view = await viewOf(null);
    const mask = volumeOf(
      bytes((at) => at % 2),
      size,
      // Packed, and no NIfTI.
      { path: '/data/mask.mgh.gz' },
    );
    const scan = volumeOf(new Uint8Array(24), size, { path: file });
    const cases = [{ name: 'a', notes: [], status: null, layers: [{ name: 'm', view, scan, mask }] }];
    const page = await textOf(cases, { hasVolumes: true });
    expect(blockIn(page, 'scan-0-0') === readFileSync(file).toString('base64')).toBe(true);
    // What was converted for it is gone.
    expect(readdirSync(directory.path)).toEqual(['a.nii.GZ']);
    expect(Buffer.from(blockIn(page, 'mask-0-0'), 'base64').subarray(0, 2)).toEqual(Buffer.of(0x1f, 0x8b));
    expect(page.slice(page.indexOf('id="licences">')).length).toBeGreaterThan(1000);
    expect(page).toContain('connect-src data: blob:; ');
    expect(JSON.parse(blockIn(page, 'page')).hasVolumes).toBe(true);
    const without = await textOf(cases);
    expect([blockIn(without, 'scan-0-0'), without.includes('id="licences"')]).toEqual(['', false]);
  });
});
