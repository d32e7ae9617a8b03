import path from 'node:path';
import { isSameGeometry, openVolume, readVolume } from 'remote-app/volumes';
import { AppError, ServiceError, UsageError } from './errors.mjs';

const ENDING = /\.(nii|nii\.gz|mha|mhd|nrrd|nhdr|hdr|img|mgh|mgz|dcm|ima)$/i;

/**
 * The cases of one flag such as `--inputs`: `{ file, name }` each, with names that are unique. A group is one channel, and
 * the app has one, so a second group is refused.
 */
export function listCases(groups, flag) {
  if (groups.length > 1)
    throw new UsageError(
      `${flag} is given ${groups.length} times, but this app takes one channel: put all cases into one ${flag}.`,
    );
  const taken = new Set();
  return withoutDataFiles(groups[0]).map((file) => {
    const base = path.basename(path.resolve(file));
    const stem = base.replace(ENDING, '') || base;
    let name = stem;
    for (let copy = 1; taken.has(name); copy += 1) name = `${stem}_${copy}`;
    taken.add(name);
    return { file, name };
  });
}

/** The files without those that hold the voxels of a header beside them, such as `head.raw` of `head.mhd`. */
function withoutDataFiles(files) {
  const headers = new Set(
    files
      .filter((file) => /\.(hdr|mhd|nhdr)$/i.test(file))
      .map((file) => file.slice(0, file.lastIndexOf('.'))),
  );
  return files.filter(
    (file) => !headers.has(file.replace(/\.(img|raw|zraw|raw\.gz)$/i, '')) || ENDS_AS_HEADER.test(file),
  );
}

const ENDS_AS_HEADER = /\.(hdr|mhd|nhdr)$/i;

/**
 * Computes case after case: one whose file cannot be used does not keep the others from being computed.
 * Returns what came of those that could, and the sentences about the others.
 */
export async function eachCase(cases, log, compute) {
  const results = [];
  const refused = [];
  for (const [index, one] of cases.entries()) {
    log.line(`Case ${index + 1}/${cases.length}: ${one.name}`);
    try {
      results.push(await compute(one));
    } catch (error) {
      const isOfFile =
        (error instanceof AppError || error?.name === 'VolumeError') && !(error instanceof ServiceError);
      if (!isOfFile || error instanceof UsageError) throw error;
      refused.push(error.message);
      log.line(`  ${error.message}`);
    }
  }
  return { results, refused };
}

/** Fails the job if a case was refused, so that nobody takes a part for the whole. Results of the others are kept. */
export function requireAll({ results, refused }) {
  if (refused.length === 0) return;
  const count = results.length + refused.length;
  const others =
    results.length === 0
      ? ''
      : ` ${results.length} of ${count} cases are computed: 'remote-app result JOB --partial' fetches them.`;
  throw new AppError(`${refused.join(' ')}${others}`);
}

/** The same number of cases on both sides, matched by their order. */
export function requireSameCount(cases, flag, inputs) {
  if (cases.length !== inputs.length)
    throw new AppError(
      `${flag} has ${cases.length} file(s) for ${inputs.length} of --inputs: give one for each, in the same order.`,
    );
  return cases;
}

/**
 * Reads the first volume of a file, or of a directory with a DICOM series.
 * @throws {VolumeError} for what is no volume; its message is for the person who has sent it
 */
export async function readScan(file, log) {
  const opened = await openVolume(path.resolve(file));
  const volume = await readVolume(opened, { frame: 0 });
  const name = path.basename(path.resolve(file));
  if (opened.frames > 1) log.line(`  ${name} holds ${opened.frames} volumes: the first is taken.`);
  if (volume.components !== 1)
    throw new AppError(`${name} is a picture in colours: give a volume with one value per voxel.`);
  if (!volume.hasOrientation)
    log.line(`  ${name} does not say which way its axes point: left and right may be swapped.`);
  return volume;
}

/** Refuses two volumes whose voxels do not lie at the same places. */
export function requireSameGeometry(one, oneFile, other, otherFile) {
  if (isSameGeometry(one, other)) return;
  const [oneName, otherName] = [oneFile, otherFile].map((file) => path.basename(path.resolve(file)));
  throw new AppError(
    `${oneName} (${one.size.join(' x ')} voxels) and ${otherName} (${other.size.join(' x ')}) have their voxels at different places: resample one onto the other.`,
  );
}
