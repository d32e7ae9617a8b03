import type { Affine } from '@remote-app/volumes';
import { expect, test } from 'vitest';
import { straight } from '../../support/affine.js';
import { ball, brightness, load, type Scan } from './program.js';
import { orientations, reoriented } from './rotations.mjs';

const { findBrain, orient, nearest } = await load('lib/brain.mjs');

const plain: Affine = straight([1.5, 2, 3], [-40, -30, -20]);
/** Turned by 20 degrees around the axis from left to right, and by 10 around the one upwards. */
const oblique = turned(plain, 20, 10);

const options = { tta: 0, threshold: 0.5, onStep: () => {} };
const maskOf = async (scan: Scan): Promise<Uint8Array> => findBrain(scan, 'scan', brightness, options);

/** A scan whose mask several tests look at. */
const usual = ball([40, 48, 30], plain);
const usualMask = maskOf(usual);

function turned(affine: Affine, tilt: number, turn: number): Affine {
  const [a, b] = [tilt, turn].map((degrees) => (degrees * Math.PI) / 180) as [number, number];
  const [x, y, z] = affine;
  const tilted = [
    x,
    y.map((value, at) => Math.cos(a) * value - Math.sin(a) * (z[at] ?? 0)),
    y.map((value, at) => Math.sin(a) * value + Math.cos(a) * (z[at] ?? 0)),
  ];
  const [p = [], q = [], r = []] = tilted;
  return [
    p.map((value, at) => Math.cos(b) * value - Math.sin(b) * (q[at] ?? 0)),
    p.map((value, at) => Math.sin(b) * value + Math.cos(b) * (q[at] ?? 0)),
    [...r],
  ] as unknown as Affine;
}

test('A brain is the largest bright region, with its hole closed', async () => {
  const [scan, mask] = [usual, await usualMask];
  const count = mask.reduce((sum, value) => sum + value, 0);
  // The ball has a radius of 0.3 of each side, and the box of it loses the small one.
  const expected = (4 / 3) * Math.PI * 0.3 ** 3 * mask.length;
  expect(Math.abs(count / expected - 1)).toBeLessThan(0.05);
  const hole = (15 * 48 + 24) * 40 + 16;
  expect(scan.data[hole]).toBeLessThan(20);
  expect(mask[hole]).toBe(1);
});

test('An array is read along the body axes in any of 48 orientations, even if it is oblique', () => {
  const scan = ball([5, 7, 6], oblique);
  const expected = inOrder(scan);
  for (const orientation of orientations)
    expect(inOrder(reoriented(scan, orientation)), JSON.stringify(orientation)).toEqual(expected);
});

/** The voxels of a scan by the order that the networks read. */
function inOrder(scan: Scan): number[] {
  const { offsets } = orient(scan) as { offsets: Int32Array[] };
  const [xs = [], ys = [], zs = []] = offsets.map((each) => [...each]);
  return xs.flatMap((x) => ys.flatMap((y) => zs.map((z) => Number(scan.data[x + y + z]))));
}

test('A mask lies where the brain is, even in an oblique array with another orientation', async () => {
  const scan = ball([40, 48, 30], oblique);
  const orientation = { axes: [2, 0, 1], flipped: [true, false, true] };
  const expected = reoriented({ ...scan, data: await maskOf(scan) }, orientation).data as Uint8Array;
  expect(Buffer.compare(await maskOf(reoriented(scan, orientation)), expected)).toBe(0);
});

test('A mirrored scan has a different mask, so left and right are distinguished', async () => {
  const mirrored = reoriented(usual, { axes: [0, 1, 2], flipped: [true, false, false] });
  const claimed = await maskOf({ ...mirrored, affine: usual.affine });
  expect(Buffer.compare(claimed, await usualMask)).not.toBe(0);
});

test('Axes of a sheared volume are assigned to the closest body axes', () => {
  const sheared: Affine = [
    [0.2, 0.1, -2, 0],
    [1, 0.3, 0.2, 0],
    [0.1, -1, 0.1, 0],
  ];
  expect(orient({ size: [3, 4, 5], affine: sheared }).size).toEqual([5, 3, 4]);
});

test('A length is resampled to the voxels whose centres are nearest', () => {
  expect([...nearest(4, 2)]).toEqual([1, 3]);
  expect([...nearest(2, 4)]).toEqual([0, 0, 1, 1]);
  expect([...nearest(1, 3)]).toEqual([0, 0, 0]);
  expect([...nearest(3, 3)]).toEqual([0, 1, 2]);
});

test('Test-time augmentation averages passes that are flipped back', async () => {
  const members: Float32Array[] = [];
  const onMember = (_index: number, voxels: Float32Array) => members.push(voxels);
  const mask = await findBrain(usual, 'scan', brightness, { ...options, tta: 2, onMember });
  expect(members).toHaveLength(3);
  for (const member of members) expect(Buffer.compare(bytes(member), bytes(members[0]))).toBe(0);
  expect(Buffer.compare(mask, await usualMask)).toBe(0);
});

const bytes = (values: Float32Array | undefined): Buffer => Buffer.from(values?.buffer ?? new ArrayBuffer(0));

test('A volume without contrast or without a brain is refused by name', async () => {
  const flat = { ...ball([16, 16, 16], plain), data: new Int16Array(16 ** 3) };
  await expect(maskOf(flat)).rejects.toThrow('scan has the same value nearly everywhere');
  const blind = { ...brightness, runBox: (cube: Float32Array) => new Float32Array(cube.length) };
  const scan = ball([16, 16, 16], plain);
  await expect(findBrain(scan, 'scan', blind, options)).rejects.toThrow('No brain was found in scan');
});

test('Values that are not numbers count as 0, and infinite values as the largest', async () => {
  const holed = Float32Array.from(usual.data);
  // A corner that is nearly black anyway.
  holed[0] = Number.NaN;
  expect(Buffer.compare(await maskOf({ ...usual, data: holed }), await usualMask)).toBe(0);
});
