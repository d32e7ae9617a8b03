import path from 'node:path';
import { parseArgs } from 'node:util';
import { UsageError } from './errors.mjs';
import { CONTRASTS, createPhantom } from './phantom-head.mjs';
import { writeVolume } from './volume.mjs';

const FIELD_OF_VIEW_MM = 220;

function readOptions(args) {
  const text = (value) => ({ type: 'string', default: value });
  let values;
  try {
    ({ values } = parseArgs({
      args,
      options: {
        out: { type: 'string' },
        cases: text('3'),
        size: text('48'),
        seed: text('1'),
        noise: text('0.04'),
        layout: text('flat'),
        contrast: text('pd'),
        format: text('nii.gz'),
      },
    }));
  } catch (error) {
    throw new UsageError(error.message);
  }
  if (values.out === undefined) throw new UsageError('--out DIR is needed.');
  requireOneOf('--layout', values.layout, ['flat', 'dataset']);
  requireOneOf('--contrast', values.contrast, Object.keys(CONTRASTS));
  requireOneOf('--format', values.format, ['nii.gz', 'nii', 'mha', 'nrrd']);
  return {
    ...values,
    cases: toNumber('--cases', values.cases, 1, 1000),
    size: toNumber('--size', values.size, 8, 512),
    seed: toNumber('--seed', values.seed, 0, 1e9),
    noise: toNumber('--noise', values.noise, 0, 1, false),
  };
}

function requireOneOf(flag, value, choices) {
  if (!choices.includes(value))
    throw new UsageError(`${flag} must be one of ${choices.join(', ')}, not '${value}'.`);
}

function toNumber(flag, text, low, high, isWhole = true) {
  const value = Number(text);
  if (!(value >= low && value <= high) || (isWhole && !Number.isInteger(value))) {
    throw new UsageError(
      `${flag} must be ${isWhole ? 'an integer' : 'a number'} from ${low} to ${high}, not '${text}'.`,
    );
  }
  return value;
}

function fileOf({ out, layout, format }, role, name) {
  return layout === 'flat'
    ? path.join(out, role, `${name}.${format}`)
    : path.join(out, name, `${role}.${format}`);
}

/** Writes the heads that the words of a command line ask for. Returns the files of their images. */
export async function makeHeads(args) {
  const images = [];
  const options = readOptions(args);
  const spacing = FIELD_OF_VIEW_MM / options.size;
  for (let index = 0; index < options.cases; index += 1) {
    const name = `head_${String(options.seed + index).padStart(3, '0')}`;
    const phantom = createPhantom({
      // Different from the seeds of the heads that the shipped checkpoints were trained on.
      seed: 100_000 + options.seed + index,
      size: [options.size, options.size, options.size],
      spacing: [spacing, spacing, spacing],
      contrast: options.contrast,
      noise: options.noise,
    });
    await writeVolume(fileOf(options, 'image', name), phantom, phantom.data);
    await writeVolume(fileOf(options, 'label', name), phantom, phantom.labels);
    images.push(fileOf(options, 'image', name));
  }
  return images;
}
