import path from 'node:path';
import { derivedUid } from './derived-object.js';
import { filesOfDicom, readSeries } from './dicom.js';
import { readElements } from './dicom-elements.js';
import { numberOf, wordsOf } from './headers/dicom-parse.js';
import { readIdentity, readLossy } from './patient-study.js';
import type { SourceImage, SourceSeries } from './segments.js';
import { VolumeError } from './volume.js';

/**
 * Reads what a result needs in order to refer to its series, from headers only.
 * @param files of one series: a directory, a multi-frame file, or a file for each slice
 * @throws VolumeError for anything that is not a volume, and for a series without UIDs to refer to
 */
export async function readSourceSeries(files: string | readonly string[]): Promise<SourceSeries> {
  const given = typeof files === 'string' ? [files] : files;
  const [target = ''] = given;
  const all = given.length === 1 ? await filesOfDicom(target, {}) : given;
  const title = all === given ? path.dirname(target) : target;
  const { volume, places } = await readSeries(all, title, {});
  const first = places[0]?.[0];
  if (!first || !volume.hasOrientation)
    throw new VolumeError(`${path.basename(title)} holds no DICOM slices with a place in the patient.`);
  const { set } = await readElements(first.instance.file, first.instance.name);
  const uid = (tag: string, words: string): string => {
    const value = wordsOf(set, tag);
    if (value !== null) return value;
    throw new VolumeError(`${first.instance.name} has no ${words}, so nothing can refer to it.`);
  };
  const seriesUid = uid('x0020000e', 'SeriesInstanceUID');
  return {
    size: volume.size,
    affine: volume.affine,
    name: path.basename(path.resolve(title)),
    files: all,
    studyUid: uid('x0020000d', 'StudyInstanceUID'),
    seriesUid,
    frameOfReferenceUid: wordsOf(set, 'x00200052') ?? derivedUid('frame of reference', seriesUid),
    seriesNumber: numberOf(set, 'x00200011'),
    modality: wordsOf(set, 'x00080060'),
    orientation: first.orientation ?? [],
    pixelSpacing: first.pixelSpacing ?? [],
    thickness: first.thickness,
    slices: places.map((images) =>
      images.map(({ instance, index, position }): SourceImage => {
        const { instanceUid, sopClass } = instance.header;
        if (instanceUid === null || sopClass === '')
          throw new VolumeError(
            `${instance.name} has no SOPInstanceUID or no SOPClassUID, so nothing can refer to it.`,
          );
        return {
          file: instance.file,
          sopClass,
          sopInstance: instanceUid,
          frame: instance.format.frames > 1 ? index + 1 : null,
          position: position ?? [],
        };
      }),
    ),
    identity: readIdentity(set),
    characterSet: wordsOf(set, 'x00080005'),
    lossy: readLossy(set),
  };
}
