import { describe, expect, test } from 'vitest';
import { dicomFile, element } from '../../../test/support/dicom-files.js';
import { arrange, type Image, type Instance } from '../src/dicom-images.js';
import { readNumber, readNumbers } from '../src/dicom-numbers.js';
import type { Moment } from '../src/dicom-order.js';
import { VolumeError } from '../src/index.js';
import { parse } from './study.js';

const nothing: Moment = {
  ...{ dimensions: null, time: null, echo: null, bValue: null, gradient: null, component: null },
  ...{ delay: null, acquisition: null },
};

describe('Images of a series', () => {
  const image = (
    name: string,
    z: number,
    given: Partial<Image & Instance & { uid: string; number: number }> = {},
  ): Image => {
    const {
      uid = null,
      number = null,
      isInOrder = false,
      moment = nothing,
      index = 0,
      position = [0, 0, z],
    } = given;
    const header = { instanceUid: uid, instanceNumber: number };
    const instance = { name, file: name, isInOrder, header } as unknown as Instance;
    return {
      ...{
        name,
        size: [2, 2],
        position,
        orientation: [1, 0, 0, 0, 1, 0],
        pixelSpacing: [1, 1],
        thickness: 2,
      },
      ...{ between: null, decimals: null, slope: 1, intercept: 0, moment, index },
      instance: given.instance ?? instance,
    };
  };
  const namesOf = (...images: Image[]) =>
    arrange(images).places.map((place) => place.map(({ name }) => name).join(' '));
  const copies = (one: string, other: string) =>
    new VolumeError(
      `${one} and ${other} lie at the same place: take out the copy, or give each echo or time point its own directory.`,
    );

  test('lie in the order of their places, and of their instance numbers at each', () => {
    const images = [
      image('b2', 2, { number: 9 }),
      image('a1', 0, { number: 3 }),
      image('b1', 2, { number: 4 }),
      image('a2', 0, { number: 8 }),
    ];
    expect(namesOf(...images)).toEqual(['a1 a2', 'b1 b2']);
    expect(arrange(images).affine).toEqual([
      [-1, 0, 0, 0],
      [0, -1, 0, 0],
      [0, 0, 2, 0],
    ]);
  });

  test('are copies where a place has more than the others, or the same UID, number or none', () => {
    expect(() => namesOf(image('a', 0), image('b', 2), image('c', 2))).toThrow(copies('b', 'c'));
    expect(() => namesOf(image('a', 0), image('b', 0), image('c', 2))).toThrow(copies('a', 'b'));
    const with2 = (name: string, z: number, uid: string, number: number) => image(name, z, { uid, number });
    expect(() =>
      namesOf(with2('b', 0, '1', 1), with2('a', 0, '1', 2), with2('c', 2, '2', 1), with2('d', 2, '3', 2)),
    ).toThrow(copies('a', 'b'));
    expect(() => namesOf(image('b', 0, { number: 1 }), image('a', 0, { number: 1 }))).toThrow(
      copies('a', 'b'),
    );
    for (const number of [1, 0, -1, undefined])
      expect(() => namesOf(image('b', 0), image('a', 0, number === undefined ? {} : { number }))).toThrow(
        copies('a', 'b'),
      );
  });

  test('of one file are in its order where that means something', () => {
    const one = image('f', 0, { isInOrder: true, uid: '1' });
    const frame = (name: string, index: number, x = 0) =>
      image(name, 0, { instance: one.instance, index, position: [x, 0, 0] });
    expect(namesOf(frame('f3', 3), frame('f1', 1))).toEqual(['f1 f3']);
    expect(namesOf(frame('f3', 3, 9), frame('f1', 1))).toEqual(['f1 f3']);
    const { instance } = image('f', 0);
    expect(() => namesOf(image('f1', 0, { instance, index: 1 }), image('f0', 0, { instance }))).toThrow(
      new VolumeError(
        'f0 and f1 lie at the same place, and nothing says which time point or echo they are: convert the file with dcm2niix.',
      ),
    );
  });

  test('do not lie beside each other', () => {
    const beside = (x: number) => [
      image('a', 0, { number: 1 }),
      image('b', 0, { number: 2, position: [x, 0, 0] }),
    ];
    expect(namesOf(...beside(0.05))).toEqual(['a b']);
    expect(() => namesOf(...beside(0.06))).toThrow(
      new VolumeError('a and b lie beside each other in one plane: give each series its own directory.'),
    );
  });
});

test('a text that is no number is told with its name, or its tag, and cut off where it is long', () => {
  const more = [
    element(0x00180050, 'DS', '1,25'),
    element(0x00181000, 'LO', 'x'.repeat(40)),
    element(0x00181020, 'LO', 'x'.repeat(41)),
    element(0x00181030, 'LO', '1\\2'),
  ];
  const set = parse(dicomFile({ pixels: new Int16Array(4), size: [2, 2], more }));
  expect(() => readNumber(set, 'x00180050', 'f')).toThrow(
    new VolumeError(
      "f has '1,25' as its slice thickness, which is no number (DICOM has a decimal point, not a comma): export it again, or convert it to NIfTI.",
    ),
  );
  expect(() => readNumbers(set, 'x00181000', 'f')).toThrow(`has '${'x'.repeat(40)}' as`);
  expect(() => readNumbers(set, 'x00181020', 'f')).toThrow(
    new VolumeError(
      `f has '${'x'.repeat(40)}...' as its element x00181020, which is no number: export it again, or convert it to NIfTI.`,
    ),
  );
  expect([readNumbers(set, 'x00181030', 'f'), readNumber(set, 'x00181030', 'f')]).toEqual([[1, 2], 1]);
  expect([readNumbers(set, 'x00189999', 'f'), readNumber(undefined, 'x00180050', 'f')]).toEqual([null, null]);
});
