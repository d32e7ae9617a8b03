import { describe, expect, test } from 'vitest';
import { dicomFile, type Element, element, type Slice } from '../../../test/support/dicom-files.js';
import { isInFileOrder, type Moment, momentOf, orderByMoment } from '../src/dicom-order.js';
import { VolumeError } from '../src/index.js';
import { parse } from './study.js';

const slice: Slice = { pixels: new Int16Array(4), size: [2, 2], position: [0, 0, 0] };
const setOf = (...more: Element[]) => parse(dicomFile({ ...slice, more }));
const doubles = (tag: number, ...values: number[]) =>
  element(tag, 'FD', Buffer.from(Float64Array.from(values).buffer));
const longs = (tag: number, ...values: number[]) =>
  element(tag, 'UL', Buffer.from(Uint32Array.from(values).buffer));
const group = (tag: number, ...elements: Element[]) => element(tag, 'SQ', [elements]);

const nothing: Moment = {
  ...{ dimensions: null, time: null, echo: null, bValue: null, gradient: null, component: null },
  ...{ delay: null, acquisition: null },
};

describe('What tells images of one place apart', () => {
  const imageType = element(0x00080008, 'CS', 'ORIGINAL\\PRIMARY\\M ');
  const classic = [
    element(0x00200100, 'IS', '3'),
    element(0x00180081, 'DS', '4.567'),
    element(0x00180086, 'IS', '2'),
    element(0x00200012, 'IS', '7'),
    doubles(0x00189087, 800.04),
    doubles(0x00189089, 1 / 3, 0, -1),
    imageType,
  ];

  test('is read from a classic file', () => {
    expect(momentOf(setOf(), 0, 'f')).toEqual(nothing);
    expect(momentOf(setOf(...classic), 0, 'f')).toEqual({
      ...{ dimensions: null, time: 3, echo: 4.57, bValue: 800, gradient: '0.33 0 -1' },
      ...{ component: 'ORIGINAL\\PRIMARY\\M', delay: null, acquisition: 7 },
    });
    expect(momentOf(setOf(element(0x00180086, 'IS', '2')), 0, 'f')).toEqual({ ...nothing, echo: 2 });
  });

  test('is read from the groups of a frame, which come before those of the file', () => {
    const more = [
      group(0x00209111, longs(0x00209128, 5), element(0x00209156, 'US', [9])),
      group(0x00189114, doubles(0x00189082, 12.345)),
      group(0x00189117, doubles(0x00189087, 1000), group(0x00189076, doubles(0x00189089, 0, 1, 0))),
      group(0x00189226, element(0x00089208, 'CS', 'PHASE'), element(0x00089007, 'CS', 'ORIGINAL\\A')),
      group(0x00209310, doubles(0x0020930d, 1.5)),
      group(0x00189118, doubles(0x00209153, 2.5)),
    ];
    const frames = [{ more }, { more: [more[5] as Element] }];
    const set = parse(dicomFile({ ...slice, frames, more: [...classic] }));
    expect(momentOf(set, 0, 'f')).toEqual({
      ...{ dimensions: null, time: 5, echo: 12.35, bValue: 1000, gradient: '0 1 0' },
      ...{ component: 'PHASE ORIGINAL\\A', delay: 1.5, acquisition: 9 },
    });
    expect(momentOf(set, 1, 'f')).toMatchObject({ time: 3, delay: 2.5, bValue: 800, acquisition: 7 });
    expect([set, setOf()].map(isInFileOrder)).toEqual([false, true]);
  });

  test('is no number that its element is too short for', () => {
    const short = Buffer.from([1, 0, 0, 0]);
    const more = [
      element(0x00189087, 'FD', short),
      doubles(0x00189089, 1, 0),
      group(
        0x00209111,
        element(0x00209128, 'UL', Buffer.from([1, 0])),
        element(0x00209156, 'US', Buffer.alloc(0)),
      ),
    ];
    expect(momentOf(setOf(...more), 0, 'f')).toEqual(nothing);
    expect(momentOf(setOf(doubles(0x00189087, Number.NaN)), 0, 'f')).toEqual(nothing);
  });

  const pointer = (tag: number) => [
    element(0x00209165, 'AT', Buffer.from(Uint16Array.of(tag >>> 16, tag & 0xffff).buffer)),
  ];
  const dimensions = (...tags: number[]) => element(0x00209222, 'SQ', tags.map(pointer));
  const space = [0x00209056, 0x00209057, 0x00200032, 0x00201041, 0x00209113];
  const content = (...indices: number[]) => group(0x00209111, longs(0x00209157, ...indices));
  test('are the dimensions that are none of space, by their pointers and places', () => {
    const of = (pointers: number[], indices: number[]) => {
      const frames = [{ more: [content(...indices)] }];
      const more = pointers.length > 0 ? [dimensions(...pointers)] : [];
      return momentOf(parse(dicomFile({ ...slice, frames, more })), 0, 'f').dimensions;
    };
    expect(of([...space, 0x00209128, 0x20051412], [1, 2, 3, 4, 5, 6, 7])).toEqual([
      ['x00209128.5', 6],
      ['x20051412.6', 7],
    ]);
    expect([of([0x00209128], [1, 2]), of([0x00209128, 0x20051412], [1]), of([], [1])]).toEqual([
      null,
      null,
      null,
    ]);
  });

  test('are the vectors of nuclear medicine, of which each has a number for every frame', () => {
    const tags = [0x00540010, 0x00540020, 0x00540030, 0x00540060, 0x00540070, 0x00540100];
    const set = setOf(
      ...tags.map((tag, at) => element(tag, 'US', [1, at + 2])),
      dimensions(0x00209128),
      content(1),
    );
    expect(momentOf(set, 1, 'f').dimensions).toEqual([
      ['x00540010', 2],
      ['x00540020', 3],
      ['x00540030', 4],
      ['x00540060', 5],
      ['x00540070', 6],
      ['x00540100', 7],
    ]);
  });
});

interface Timed {
  readonly name: string;
  readonly moment: Moment;
}
const timed = (name: string, moment: Partial<Moment> = {}): Timed => ({
  name,
  moment: { ...nothing, ...moment },
});
/** The names of images in their order, place by place. */
const ordered = (...levels: Timed[][]): string[] => {
  const order = orderByMoment(levels);
  return levels.map((level) =>
    level
      .toSorted(order)
      .map(({ name }) => name)
      .join(' '),
  );
};
const contradiction = (one: string, other: string, words: string) =>
  new VolumeError(
    `${one} and ${other} contradict each other in their ${words}: which image belongs to which time point, echo or b-value is uncertain. Export the series again, or convert it with dcm2niix.`,
  );

describe('Images of one place are in the order of', () => {
  test.each<[string, Partial<Moment>[], Partial<Moment>]>([
    ['temporal position', [{ time: null }, { time: 1 }, { time: 2 }, { time: 10 }], { time: 11 }],
    ['echo', [{ echo: null }, { echo: 2.5 }, { echo: 10 }], { echo: 11 }],
    ['b-value', [{ bValue: null }, { bValue: 0 }, { bValue: 1000 }], { bValue: 1001 }],
    ['gradient direction', [{}, { gradient: '0 1 0' }, { gradient: '1 0 0' }], { gradient: '1 0 1' }],
    ['type (magnitude, phase)', [{ component: 'M' }, { component: 'P' }], { component: 'R' }],
    [
      'temporal position',
      [
        { time: 1, echo: 9 },
        { time: 2, echo: 1 },
      ],
      { time: 3, echo: 1 },
    ],
    [
      'echo',
      [
        { echo: 1, bValue: 9 },
        { echo: 2, bValue: 1 },
      ],
      { echo: 3, bValue: 1 },
    ],
  ])('%s, and have the same at each place: %j', (words, moments, other) => {
    const images = (place: string) => moments.map((moment, at) => timed(`${place}${at}`, moment));
    const names = (place: string) =>
      images(place)
        .map(({ name }) => name)
        .join(' ');
    expect(ordered(images('a').toReversed(), images('b'))).toEqual([names('a'), names('b')]);
    const odd = [...images('b').slice(0, -1), timed('odd', other)];
    expect(() => ordered(images('a'), odd)).toThrow(contradiction(`a${moments.length - 1}`, 'odd', words));
  });

  test('delays and acquisition numbers, which need not be the same at each place', () => {
    for (const key of ['delay', 'acquisition'] as const) {
      const images = (name: string, ...values: number[]) =>
        values.map((value) => timed(`${name}${value}`, { [key]: value }));
      expect(ordered(images('a', 3, 1), images('b', 20, 10))).toEqual(['a1 a3', 'b10 b20']);
    }
  });

  test('nothing where one image is all there is at each place', () => {
    expect(ordered([timed('a', { time: 1 })], [timed('b', { time: 2 })])).toEqual(['a', 'b']);
  });

  test('what tells them apart first, and nothing behind it', () => {
    const images = (name: string, echoes: number[]) =>
      echoes.map((echo, at) => timed(`${name}${at}`, { time: at, echo }));
    expect(ordered(images('a', [5, 5]), images('b', [7, 6]))).toEqual(['a0 a1', 'b0 b1']);
  });

  const indices = (...values: readonly (readonly [string, number])[]): Partial<Moment> => ({
    dimensions: values,
  });
  test('their own dimensions before all others, where all have the same ones', () => {
    const a = [
      timed('a1', { ...indices(['x.0', 2], ['y.1', 1]), echo: 1 }),
      timed('a2', { ...indices(['x.0', 1], ['y.1', 2]), echo: 2 }),
      timed('a3', { ...indices(['x.0', 1], ['y.1', 1]), echo: 3 }),
    ];
    expect(ordered(a)).toEqual(['a3 a2 a1']);
    const mixed = [
      timed('b1', { ...indices(['x.0', 2]), echo: 1 }),
      timed('b2', { ...indices(['y.0', 1]), echo: 2 }),
    ];
    expect(ordered(mixed)).toEqual(['b1 b2']);
    const longer = [
      timed('b1', { ...indices(['x.0', 2]), echo: 1 }),
      timed('b2', { ...indices(['x.0', 1], ['y.1', 1]), echo: 2 }),
    ];
    expect(ordered(longer)).toEqual(['b1 b2']);
    const other = [timed('b1', indices(['x.0', 1])), timed('b2', indices(['x.0', 3]))];
    expect(() =>
      ordered([timed('a1', indices(['x.0', 1])), timed('a2', indices(['x.0', 2]))], other),
    ).toThrow(contradiction('a2', 'b2', 'dimension index values'));
  });

  test('time, whose indices run as the temporal positions do', () => {
    const at = (name: string, index: number, time: number | null) =>
      timed(name, { ...indices(['x00209128.0', index]), time });
    expect(ordered([at('b', 2, 9), at('a', 1, 3)])).toEqual(['a b']);
    expect(ordered([at('b', 2, null), at('a', 1, 3)])).toEqual(['a b']);
    const words = 'temporal positions';
    expect(() => ordered([at('b', 2, 3), at('a', 1, 9)])).toThrow(contradiction('a', 'b', words));
    expect(() => ordered([at('b', 2, 3), at('a', 1, 3)])).toThrow(contradiction('a', 'b', words));
    expect(() => ordered([at('a', 1, 1), at('b', 2, 2)], [at('c', 1, 1), at('d', 2, 3)])).toThrow(
      contradiction('b', 'd', words),
    );
  });
});
