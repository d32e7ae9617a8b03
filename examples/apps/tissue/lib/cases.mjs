import path from 'node:path';
import { openVolume } from 'remote-app/volumes';
import { AppError, ServiceError, UsageError } from './errors.mjs';

/** Formats in which a result is written if its input has them; all others become NIfTI. */
const KEPT_FORMATS = ['.nii.gz', '.nii', '.mha', '.nrrd'];
const KNOWN_ENDINGS = [...KEPT_FORMATS, '.mhd', '.nhdr', '.hdr', '.dcm', '.ima', '.mgz', '.mgh'];

/**
 * The cases of one `--inputs` flag: `{ file, name, ending }` each, with names that are unique. The app has one
 * input channel, so a second group is refused rather than guessed at.
 */
export async function listCases(groups, flag) {
  if (groups.length > 1) {
    throw new UsageError(
      `${flag} is given ${groups.length} times, but this app takes one channel: put all cases into one ${flag}.`,
    );
  }
  const files = await withoutDataFiles(groups[0]);
  const taken = new Set();
  return files.map((file) => {
    const { stem, ending } = splitName(file);
    let name = stem;
    for (let copy = 1; taken.has(name); copy += 1) name = `${stem}_${copy}`;
    taken.add(name);
    return { file, name, ending };
  });
}

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
  if (cases.length !== inputs.length) {
    throw new AppError(
      `${flag} has ${cases.length} file(s) for ${inputs.length} of --inputs: give one for each, in the same order.`,
    );
  }
  return cases;
}

function splitName(file) {
  const base = path.basename(path.resolve(file));
  const known = KNOWN_ENDINGS.find((ending) => base.toLowerCase().endsWith(ending));
  const stem = known === undefined ? base : base.slice(0, -known.length);
  return { stem: stem || base, ending: KEPT_FORMATS.includes(known) ? known : '.nii.gz' };
}

/** The files without those that a header among them names, such as `img.raw` of `head.mhd`: they are read through it. */
async function withoutDataFiles(files) {
  const paths = files.map((file) => path.resolve(file));
  const headers = paths.filter((file) => /\.(mhd|nhdr|hdr)(\.gz)?$/i.test(file));
  // What is wrong with a file is said when it is read.
  const opened = await Promise.all(headers.map((file) => openVolume(file).catch(() => undefined)));
  const named = opened.flatMap((volume) => volume?.dataFiles ?? []);
  return files.filter((_, index) => !named.includes(paths[index]));
}
