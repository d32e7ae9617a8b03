import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import {
  openVolume,
  type SourceSeries,
  type VolumeFile,
  writeDicomSeg,
  writeDicomSeries,
  writeNifti,
  writeRtStruct,
} from '../src/index.js';
import { labels, listed, maker, maskOn, moreIdentity, parse, segments, size, writeSeries } from './study.js';
import { workspace } from './written.js';

/** What an object has, element by element, as the files of this directory say it. */
const expected = (name: string): string[] =>
  readFileSync(new URL(`./objects/${name}.txt`, import.meta.url), 'utf8')
    .trimEnd()
    .split('\n');

const shared = expected('patient-and-study');

/** The elements of a file: those of the patient and the study, and its own. Implicit ones do not name their types. */
async function elementsOf(file: string, isImplicit = false) {
  const all = listed(parse(await readFile(file)));
  const wanted = isImplicit ? shared.map((line) => line.replace(/^(\w{8}) [A-Z]{2}/, '$1')) : shared;
  const tags = new Set(shared.map((line) => line.slice(0, 8)));
  expect(all.filter((line) => tags.has(line.slice(0, 8)))).toEqual(wanted);
  return all.filter((line) => !tags.has(line.slice(0, 8)));
}

/** A series that says all there is to say, and a mask with two labels on it. */
async function study(): Promise<{ source: SourceSeries; mask: VolumeFile; directory: string }> {
  const source = await writeSeries({ more: moreIdentity });
  const few = labels.map((_, at) => (at === 17 ? 1 : at === 33 || at === 34 ? 5 : 0));
  return { source, mask: await maskOn(source, few), directory: await workspace() };
}

test('A segmentation has exactly the expected elements', async () => {
  const { source, mask, directory } = await study();
  const [file, map] = [path.join(directory, 'seg.dcm'), path.join(directory, 'map.dcm')];
  await writeDicomSeg(file, [{ mask, segments }], source, { maker });
  const binary = await elementsOf(file);
  expect(binary).toEqual(expected('segmentation'));
  await writeDicomSeg(map, [{ mask, segments }], source, { maker, isLabelMap: true });
  expect((await elementsOf(map)).filter((line) => !binary.includes(line))).toEqual([
    '00080016 UI 1.2.840.10008.5.1.4.1.1.66.7',
    '00080018 UI 2.25.61091532117440681156076556992037715741',
    '0020000e UI 2.25.332921782680023210454324844421097791638',
    '    00209164 UI 2.25.339852773275235524098732016438201398825',
    '    00209164 UI 2.25.339852773275235524098732016438201398825',
    '00280100 US 8',
    '00280101 US 8',
    '00280102 US 7',
    '00280120 US 0',
    '00620001 CS LABELMAP',
    '    00620004 US 5',
    '        00209157 UL 1',
    '        00209157 UL 2',
    '7fe00010 OB 30 bytes',
    '00020002 UI 1.2.840.10008.5.1.4.1.1.66.7',
    '00020003 UI 2.25.61091532117440681156076556992037715741',
  ]);
});

test('A structure set has exactly the expected elements', async () => {
  const { source, mask, directory } = await study();
  const file = path.join(directory, 'rt.dcm');
  await writeRtStruct(file, [{ mask, segments }], source, { maker });
  expect(await elementsOf(file, true)).toEqual(expected('structure-set'));
});

test('An image of a derived series has exactly the expected elements', async () => {
  const { source, directory } = await study();
  const file = path.join(directory, 'ct.nii');
  const data = Int16Array.from({ length: labels.length }, (_, at) => at * 3 - 50);
  await writeNifti(file, { size, affine: source.affine, data });
  await writeDicomSeries(path.join(directory, 'ct'), await openVolume(file), source, {
    maker,
    isHounsfield: true,
  });
  expect(await elementsOf(path.join(directory, 'ct/0002.dcm'))).toEqual(expected('derived-image'));
});
