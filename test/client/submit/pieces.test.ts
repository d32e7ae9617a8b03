import { existsSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  behind,
  contentOf,
  piecesOf,
  type Segment,
  sizeOf,
  stateOf,
} from '../../../src/client/submit/segments.js';
import { TemporaryDirectory } from '../../../src/client/submit/temporary-directory.js';
import { operationOf } from '../../../src/contract/operations.js';
import { imaging } from '../../../src/imaging/index.js';
import { dicomFile, dicomSeries } from '../../support/dicom.js';
import { openBelow } from '../../support/open-files.js';
import { plant, temporary } from '../../support/temporary.js';
import { memoryReporter } from '../support/connect.js';

describe('the bytes of a body', () => {
  const text = Buffer.from('abc');
  const range = { path: '/x', start: 2, end: 6 };

  test.each<[number, readonly Segment[]]>([
    [0, [text, range]],
    [1, [Buffer.from('bc'), range]],
    [3, [range]],
    [4, [{ ...range, start: 3 }]],
    [6, [{ ...range, start: 5 }]],
    [7, []],
    [9, []],
  ])('Skipping the first %i bytes of a body leaves the rest', (bytes, left) => {
    expect(behind([text, range], bytes)).toEqual(left);
    expect(behind([text, Buffer.alloc(0), range], bytes).filter((each) => sizeOf(each) > 0)).toEqual(left);
  });

  test('The bytes of a body come from buffers and files, and a file must not change', async () => {
    await using root = await temporary();
    await plant(root.path, { a: '0123456789', empty: '' });
    const file = path.join(root.path, 'a');
    const part = { field: 'inputs', filename: 'a', path: file, size: 10 };
    expect(contentOf(part)).toEqual([{ path: file, start: 0, end: 10, whole: 10 }]);
    expect(
      contentOf({ ...part, pieces: [new Uint8Array(4).fill(65).subarray(1), { start: 2, end: 4 }] }),
    ).toEqual([Buffer.from('AAA'), { path: file, start: 2, end: 4 }]);
    const read = (segments: readonly Segment[], seen = new Map<string, string>()) =>
      Array.from(piecesOf(segments, seen), String);
    const seen = new Map<string, string>();
    const segments = [Buffer.from('ab'), { path: file, start: 1, end: 6 }, Buffer.from('cdefg')];
    expect(read(segments, seen)).toEqual(['ab', '12345', 'cdefg']);
    expect([...seen]).toEqual([[file, stateOf(statSync(file))]]);
    expect(read([{ path: path.join(root.path, 'gone'), start: 3, end: 3 }])).toEqual([]);
    expect(read([Buffer.alloc(0)])).toEqual([]);
    const changed = `'${file}' changed while it was sent; send it again`;
    expect(() => read([{ path: file, start: 0, end: 11 }])).toThrow(changed);
    expect(() => read([{ path: file, start: 0, end: 5, whole: 9 }])).toThrow(changed);
    expect(read([{ path: file, start: 0, end: 5 }])).toEqual(['01234']);
    utimesSync(file, 1, 1);
    expect(() => read(segments, seen)).toThrow(changed);
    const gone = path.join(root.path, 'gone');
    const cannot = expect.objectContaining({
      exitCode: 1,
      message: expect.stringMatching(/gone' cannot be read: /),
    });
    expect(() => read([{ path: gone, start: 0, end: 1 }])).toThrow(cannot);
    expect(openBelow(root.path)).toEqual([]);
  });
});

test('A temporary directory is private, created when it is used, and removed with everything in it', async () => {
  await using root = await temporary();
  vi.stubEnv('TMPDIR', root.path);
  onTestFinished(() => void vi.unstubAllEnvs());
  const listeners = process.listenerCount('exit');
  const directory = new TemporaryDirectory();
  const [beside, inside] = [path.join(root.path, 'a'), 'a'];
  writeFileSync(beside, 'x');
  await directory.discard(beside);
  await directory.remove();
  expect(process.listenerCount('exit')).toBe(listeners);
  const own = await directory.path();
  expect([await directory.path(), path.dirname(own), statSync(own).mode & 0o777]).toEqual([
    own,
    root.path,
    0o700,
  ]);
  expect([path.basename(own).startsWith('remote-app-'), process.listenerCount('exit')]).toEqual([
    true,
    listeners + 1,
  ]);
  for (const name of [inside, 'b']) writeFileSync(path.join(own, name), 'x');
  await directory.discard(path.join(own, inside));
  await directory.discard(path.join(own, 'none'));
  await directory.discard(beside);
  await directory.discard(own);
  expect([existsSync(path.join(own, inside)), existsSync(path.join(own, 'b')), existsSync(beside)]).toEqual([
    ...[false, true, true],
  ]);
  await directory.remove();
  expect([existsSync(own), process.listenerCount('exit')]).toEqual([false, listeners]);
});

test('The app is described only if it matters whether it accepts segmentations', async () => {
  await using root = await temporary();
  const scans = dicomSeries(2, { series: '1', number: 1 }, (at) => `a${at}`);
  await plant(root.path, {
    ...scans,
    seg: dicomFile({ kind: 'SEG', modality: 'SEG', image: 1, series: '9' }),
  });
  const find = async (name: 'infer' | 'pipeline' | 'evaluate', type: string | null, isAvailable = true) => {
    const operation = operationOf(name);
    const [field] = operation.fields.filter((each) => each.role === 'paths');
    if (!field) throw new Error('no field');
    const reporter = memoryReporter();
    let asked = 0;
    const describeApp = async () => {
      asked += 1;
      return type === null
        ? null
        : ({ available: isAvailable, inputs: { a: { volume_type: type } } } as never);
    };
    const found = await imaging.find(
      { operation, files: [{ field, groups: [[root.path]] }], archive: null },
      { output: null, reporter, describeApp },
    );
    return [found.volumes[0]?.groups[0]?.map(({ kind }) => kind), asked, reporter.moves.at(-1)];
  };
  const [one, both] = [['series'], ['series', 'file']];
  const read = ['Reading', 3, 3];
  expect(await find('infer', 'SEGMENTATION')).toEqual([both, 1, read]);
  expect(await find('infer', 'VOLUME')).toEqual([one, 1, read]);
  expect(await find('infer', null)).toEqual([one, 1, read]);
  expect(await find('infer', 'SEGMENTATION', false)).toEqual([one, 1, read]);
  expect(await find('pipeline', 'VOLUME')).toEqual([one, 1, read]);
  expect(await find('evaluate', null)).toEqual([both, 0, read]);
  const stopped = new Error('stop');
  const operation = operationOf('infer');
  const [field] = operation.fields.filter((each) => each.role === 'paths');
  const submission = { operation, files: field ? [{ field, groups: [[root.path]] }] : [], archive: null };
  const finding = { output: null, reporter: memoryReporter(), signal: AbortSignal.abort(stopped) };
  await expect(imaging.find(submission, finding)).rejects.toBe(stopped);
});
