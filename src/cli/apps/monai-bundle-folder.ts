import { existsSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { UsageError } from '../../client/errors.js';
import { counted, excerpt, quoteName, quotePath } from '../../contract/index.js';
import { firstBytes } from '../../files/index.js';
import { namesInFolder } from './model-app.js';
import { readModelFile } from './model-file.js';
import { BundleConfig } from './monai-bundle-config.js';
import { type BundleWeights, bundleFiles, bundleWeights } from './monai-bundle-files.js';

/** What a MONAI bundle says about its network. */
export interface MonaiBundle {
  readonly directory: string;
  readonly config: BundleConfig;
  readonly metadata: Metadata;
  /** The first words of its LICENSE; empty if there is none. */
  readonly licence: string;
  /** The names of its channels, in their order. */
  readonly channels: readonly string[];
  readonly input: BundleData;
  readonly output: BundleData;
  /** The packages that it lists, with the versions used to create it. */
  readonly packages: Readonly<Record<string, string>>;
  readonly weights: BundleWeights;
  /** Configuration, code and licence, as paths relative to the bundle. */
  readonly files: readonly string[];
  /** What was left out, in sentences. */
  readonly notes: readonly string[];
}

const text = z.union([z.string(), z.number()]).transform(String).catch('');
const packages = z.record(z.string(), text).nullish().catch(null);

const dataSchema = z.looseObject({
  type: text,
  format: text,
  modality: text,
  num_channels: z.number().int().min(0).optional(),
  spatial_shape: z.array(z.unknown()).catch([]),
  channel_def: z.record(z.string(), text).nullish(),
});
/** An input or output of a network. */
export type BundleData = z.infer<typeof dataSchema>;

const metadataSchema = z.object({
  name: text,
  version: text,
  task: text,
  description: text,
  copyright: text,
  license: text,
  intended_use: text,
  references: z.array(z.string().min(1)).catch([]),
  monai_version: text,
  pytorch_version: text,
  optional_packages_version: packages,
  required_packages_version: packages,
  network_data_format: z.object({
    inputs: z.record(z.string(), dataSchema),
    outputs: z.record(z.string(), dataSchema),
  }),
});
export type Metadata = z.infer<typeof metadataSchema>;

/** @throws UsageError for a folder that is not a bundle, with what was probably meant */
function checkIsBundle(directory: string): void {
  const quoted = quotePath(directory);
  const names = namesInFolder(directory, (file) =>
    file.endsWith('.zip')
      ? 'is an archive: unpack it, and name the folder with configs in it'
      : 'is a file: name the folder of the bundle, with configs in it',
  );
  if (existsSync(path.join(directory, 'configs', 'metadata.json'))) return;
  if (names.includes('metadata.json') || ['models', 'configs', 'docs'].includes(path.basename(directory)))
    throw new UsageError(
      `${quoted} is a part of a bundle: name the folder above it, ${quotePath(path.dirname(directory))}`,
    );
  const bundles = names.filter((name) => existsSync(path.join(directory, name, 'configs', 'metadata.json')));
  if (bundles.length > 0)
    throw new UsageError(
      `${quoted} is not a bundle, but has ${counted(bundles.length, 'bundle')}: name ${excerpt(bundles.map((name) => path.join(directory, name)).join(' or '), 1000)}`,
    );
  const archives = names.filter((name) => /\.zip$/i.test(name));
  if (archives.length > 0 && !names.includes('configs'))
    throw new UsageError(
      `${quoted} has an archive and no bundle: unpack ${quoteName(archives[0] ?? '')}, and name the folder with configs in it`,
    );
  throw new UsageError(
    `${quoted} is not a bundle of MONAI: it has no ${names.includes('configs') ? 'metadata.json in configs' : 'configs/metadata.json'}`,
  );
}

/** The only input or output. @throws UsageError unless there is exactly one */
function onlyOne(of: Metadata['network_data_format']['inputs'], what: string, file: string): BundleData {
  const names = Object.keys(of);
  const [found] = Object.values(of);
  if (found !== undefined && names.length === 1) return found;
  const named = names.length > 0 ? ` (${excerpt(names.join(', '), 300)})` : '';
  throw new UsageError(
    `${file} has ${counted(names.length, what)}${named}: only a bundle with one ${what}, of one or more channels, can be served`,
  );
}

/** @throws UsageError for a bundle that does not segment volumes */
function checkIsSegmentation(
  input: BundleData,
  output: BundleData,
  config: BundleConfig,
  file: string,
): void {
  // A list of classes also has the format 'labels', but another shape.
  const isOfImage = JSON.stringify(output.spatial_shape) === JSON.stringify(input.spatial_shape);
  const isSegmentation =
    output.format === 'segmentation' || (output.format === 'labels' && output.type === 'image' && isOfImage);
  if (!isSegmentation)
    throw new UsageError(
      `${file} is not of a segmentation: the format of its output is ${quoteName(output.format)} (type ${quoteName(output.type)}), and only 'segmentation' can be served`,
    );
  const isVolume = input.type === 'image' && !/^rgb/i.test(input.format);
  const isSlices = input.spatial_shape.length === 2 && config.components('SliceInferer').length === 0;
  if (!isVolume || isSlices)
    throw new UsageError(
      `${file} is of pictures (type ${quoteName(input.type)}, format ${quoteName(input.format)}, ${input.spatial_shape.length}D): only volumes can be served`,
    );
}

/** The names of the channels, in their order. */
function channelsOf({ channel_def, num_channels: count = 1, modality }: BundleData, file: string): string[] {
  const names = channel_def ?? {};
  if (count === 1) {
    const name = names['0'] ?? '';
    return [/^(image|)$/i.test(name) ? modality || 'Image' : name];
  }
  const channels = Array.from({ length: count }, (_, index) => names[String(index)]);
  if (count > 0 && Object.keys(names).length === count && !channels.includes(undefined))
    return channels as string[];
  throw new UsageError(
    `${file} does not say what the ${counted(count, 'channel')} of its input are: 'channel_def' names ${excerpt(Object.values(names).join(', '), 300) || 'none'}; ` +
      'a network that needs clicks, or other data beside scans, cannot be served',
  );
}

/** Refuses a bundle whose workflow the app's program does not support. @throws UsageError */
function checkWorkflow(config: BundleConfig): void {
  const { content } = config;
  for (const value of config.values())
    if (typeof value === 'string' && value.startsWith('%'))
      throw config.fault(`takes a part of another file, ${quoteName(value)}: write that part into it`);
  for (const key of ['preprocessing', 'postprocessing', 'evaluator'])
    if (content[key] === undefined)
      throw config.fault(`has no ${quoteName(key)}, which inference needs: it is laid out in another way`);
  const [evaluator = ''] = BundleConfig.classes([content.evaluator]);
  if (evaluator !== 'SupervisedEvaluator' || config.components('SupervisedEvaluator').length !== 1)
    throw config.fault(
      `has the evaluator ${quoteName(evaluator)}: only MONAI's own SupervisedEvaluator can be served`,
    );
  const loaders = config.components('LoadImaged');
  const keys = loaders.length === 1 ? [config.valueOf(loaders[0]?.keys)].flat() : [];
  if (keys.length !== 1 || keys[0] !== 'image')
    throw config.fault(
      `does not read its scans by one LoadImaged of the key 'image'${keys.length > 1 ? `, but of ${excerpt(keys.map(String).join(', '), 300)}` : ''}: that cannot be served`,
    );
  const reader = config.valueOf(loaders[0]?.reader ?? null);
  if (reader !== null && reader !== 'NibabelReader' && reader !== 'ITKReader')
    throw config.fault(
      `reads its scans with ${quoteName(String(reader))}: only NibabelReader and ITKReader, which read NIfTI, can be served`,
    );
  if (config.components('SaveImaged').length !== 1)
    throw config.fault('does not write its labels by one SaveImaged: that cannot be served');
}

/** The parts of the configuration that the app's program ignores, as sentences. */
function notesOf({ content, file }: BundleConfig): string[] {
  const evaluator = content.evaluator as Readonly<Record<string, unknown>>;
  const handlers = [content.handlers, content.val_handlers, evaluator.val_handlers].flatMap(
    BundleConfig.classes,
  );
  const others = [...new Set(handlers)].filter(
    (name) => !['', 'CheckpointLoader', 'StatsHandler'].includes(name),
  );
  // Steps for speed or random numbers, or that load weights, which the program does itself.
  const usual = /cudnn|set_determinism|^\$\s*@\w+\(@evaluator\)/;
  const steps = Array.isArray(content.initialize) ? content.initialize.map(String) : [];
  return [
    ...others.map((name) => `The handler ${name} of ${file} is left out`),
    ...steps
      .filter((step) => !usual.test(step))
      .map((step) => `The step ${quoteName(step)} of 'initialize' in ${file} is left out`),
  ];
}

/** The first words of a licence file: `Apache License Version 2.0, January 2004`. */
function licenceIn(directory: string): string {
  const lines = ['LICENSE', 'LICENSE.txt', 'LICENSE.md'].flatMap((name) =>
    firstBytes(path.join(directory, name), 1000)
      .toString('utf8')
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== ''),
  );
  return lines.slice(0, /^version/i.test(lines[1] ?? '') ? 2 : 1).join(' ');
}

/**
 * Reads a MONAI bundle. Whether its packages and code are complete turns out only when the app is loaded.
 * @throws UsageError that says what is missing, or what was probably meant
 */
export function readMonaiBundle(directory: string): MonaiBundle {
  checkIsBundle(directory);
  const place = path.join(directory, 'configs', 'metadata.json');
  const { content: metadata } = readModelFile(place, metadataSchema, 'MONAI');
  const file = quotePath(place);
  const { inputs, outputs } = metadata.network_data_format;
  const [input, output] = [onlyOne(inputs, 'input', file), onlyOne(outputs, 'output', file)];
  const config = new BundleConfig(directory);
  checkIsSegmentation(input, output, config, file);
  const channels = channelsOf(input, file);
  const { required_packages_version: required, optional_packages_version: optional } = metadata;
  checkWorkflow(config);
  const weights = bundleWeights(config);
  const { files, notes } = bundleFiles(config);
  return {
    directory: realpathSync(directory),
    config,
    metadata,
    licence: metadata.license || licenceIn(directory),
    channels,
    input,
    output,
    packages: { ...optional, ...required },
    weights,
    files,
    notes: [...weights.notes, ...notes, ...notesOf(config)],
  };
}
