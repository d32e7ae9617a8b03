import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { UsageError } from '../../client/errors.js';
import { counted, excerpt, quoteName, quotePath } from '../../contract/index.js';
import { isDirectory, namesIn } from '../../files/index.js';
import { checkCheckpoint, namesInFolder } from './model-app.js';
import { readModelFile } from './model-file.js';

/** What an nnU-Net v2 results folder says about its network. */
export interface NnunetFolder {
  readonly directory: string;
  /** The class that trained it, such as `nnUNetTrainer`. */
  readonly trainer: string;
  readonly configuration: string;
  readonly patchSize: readonly number[];
  /** In the order of `_0000`, `_0001`. */
  readonly channels: readonly string[];
  /** The label values in results, without the background, and their names. */
  readonly labels: readonly {
    readonly value: number;
    readonly name: string;
    /** The labels that a region consists of. */
    readonly values?: readonly number[];
  }[];
  /** File ending of the results, such as `.nii.gz`. */
  readonly fileEnding: string;
  readonly folds: readonly NnunetFold[];
  /** What the dataset says about itself; an empty text for anything missing. */
  readonly about: Readonly<Record<'name' | 'description' | 'reference' | 'licence', string>>;
  /** What was left out, in sentences. */
  readonly notes: readonly string[];
}

export interface NnunetFold {
  /** The checkpoint's name in the app: `fold_0.pth`. */
  readonly name: string;
  /** Path of the checkpoint. */
  readonly file: string;
}

const checkpoint = 'checkpoint_final.pth';

/** File endings that SimpleITK writes in a form that nnU-Net reads the same way. */
const endings = ['.nii.gz', '.nii', '.nrrd', '.mha', '.gipl'];

const text = z.union([z.string(), z.number()]).transform(String).catch('');
const label = z.union([z.number().int().min(0), z.array(z.number().int().min(0)).min(1)]);
const channelNames = z.record(z.string().regex(/^\d+$/), z.string());

const datasetSchema = z.object({
  channel_names: channelNames.optional(),
  modality: channelNames.optional(),
  labels: z.record(z.string(), z.unknown()),
  regions_class_order: z.array(z.number().int().min(0)).nullish(),
  file_ending: z.string().optional(),
  name: text,
  description: text,
  reference: text,
  licence: text,
  license: text,
});
type Dataset = z.infer<typeof datasetSchema>;

const configurationSchema = z.looseObject({
  inherits_from: z.string().optional(),
  previous_stage: z.string().nullish(),
  patch_size: z.array(z.number().int().min(1)).min(2).max(3).optional(),
});
const plansSchema = z.object({ configurations: z.record(z.string(), configurationSchema) });
type Plans = z.infer<typeof plansSchema>;

/** Splits the name of a results folder: `TRAINER__PLANS__CONFIGURATION`. */
function partsOf(directory: string): { readonly trainer: string; readonly configuration: string } {
  const parts = path.basename(directory).split('__');
  const [trainer = '', , configuration = ''] = parts;
  if (parts.length === 3 && trainer && configuration) return { trainer, configuration };
  throw new UsageError(
    `The name of ${quotePath(directory)} does not say which configuration it has: give it back its name of nnU-Net, ` +
      "TRAINER__PLANS__CONFIGURATION, such as 'nnUNetTrainer__nnUNetPlans__3d_fullres'",
  );
}

/** Networks directly in a folder, or one level below. */
function networksIn(directory: string): string[] {
  const inside = (folder: string) => namesIn(folder).map((name) => path.join(folder, name));
  const isNetwork = (folder: string) =>
    ['dataset.json', 'plans.json'].every((name) => existsSync(path.join(folder, name)));
  return inside(directory)
    .flatMap((each) => (isNetwork(each) ? [each] : inside(each).filter(isNetwork)))
    .sort();
}

/**
 * Finds the network's folder: the named one, or the only one in the folder of a dataset or of all results.
 * @throws UsageError if there is not exactly one, with what was probably meant
 */
function findNetwork(directory: string): string {
  const quoted = quotePath(directory);
  const names = namesInFolder(directory, (file) =>
    file.endsWith('.zip')
      ? 'is an archive: unpack it, and name the folder that comes out'
      : 'is a file: name the folder with dataset.json and plans.json in it',
  );
  const old = names.filter((name) => /^fold_/.test(name) && hasOldWeights(path.join(directory, name)));
  if (names.includes('plans.pkl') || old.length > 0 || hasOldWeights(directory))
    throw new UsageError(
      `${quoted} is of nnU-Net v1 (${old.length > 0 ? 'model_final_checkpoint.model' : 'plans.pkl'}), whose weights v2 does not read: train it with nnU-Net v2`,
    );
  const missing = ['dataset.json', 'plans.json'].filter((name) => !names.includes(name));
  if (missing.length === 0) return directory;
  if (names.includes(checkpoint))
    throw new UsageError(
      `${quoted} is one fold: name the folder above it, ${quotePath(path.dirname(directory))}`,
    );
  const [only, ...others] = networksIn(directory);
  if (only !== undefined && others.length === 0) return only;
  if (only !== undefined) {
    const all = [only, ...others].map((each) => path.relative(directory, each));
    throw new UsageError(`${quoted} has several networks: name one of ${excerpt(all.join(', '), 1000)}`);
  }
  throw new UsageError(
    `${quoted} is not a results folder of nnU-Net: it has no ${missing.join(' and no ')}; the folder is named like 'nnUNetTrainer__nnUNetPlans__3d_fullres'`,
  );
}

const hasOldWeights = (directory: string): boolean =>
  namesIn(directory).some((name) => /^model_(final_checkpoint|best|latest)\.model$/.test(name));

/** The configuration, merged with those it inherits from. */
function configurationOf(plans: Plans, directory: string, name: string) {
  const file = quotePath(path.join(directory, 'plans.json'));
  const chain: z.infer<typeof configurationSchema>[] = [];
  for (let next: string | undefined = name; next !== undefined; next = chain.at(-1)?.inherits_from) {
    const found: z.infer<typeof configurationSchema> | undefined = plans.configurations[next];
    if (found === undefined || chain.includes(found)) {
      const all = excerpt(Object.keys(plans.configurations).join(', '), 500);
      throw new UsageError(
        `${file} is not of this network: it has no configuration ${quoteName(next)}, only ${all}`,
      );
    }
    chain.push(found);
  }
  const previous = chain.find((each) => each.previous_stage)?.previous_stage;
  if (previous)
    throw new UsageError(
      `${quoteName(name)} is the second network of a cascade, which needs the results of ${quoteName(previous)}: that cannot be served; ` +
        `name the folder of ${quoteName(previous)} or of '3d_fullres'`,
    );
  const patchSize = chain.find((each) => each.patch_size)?.patch_size;
  if (!patchSize) throw new UsageError(`${file} has no patch_size for ${quoteName(name)}`);
  return { patchSize };
}

/** Channel names in the order of their numbers, which must be 0, 1, 2 and so on. */
function channelsOf({ channel_names, modality }: Dataset, file: string): string[] {
  const names = modality ?? channel_names;
  const channels = Object.keys(names ?? {}).map((_, index) => names?.[String(index)]);
  if (channels.length === 0 || channels.includes(undefined))
    throw new UsageError(
      `${file} does not name its channels by 0, 1, 2 and so on: 'channel_names' has ${excerpt(Object.keys(names ?? {}).join(', ')) || 'none'}`,
    );
  return channels as string[];
}

/** The label values in results: the labels' own or, for regions, those in `regions_class_order`. */
function labelsOf({ labels, regions_class_order: order }: Dataset, file: string): NnunetFolder['labels'] {
  if (typeof labels.background !== 'number' && '0' in labels)
    throw new UsageError(
      `${file} has the labels of nnU-Net v1, number by number: nnU-Net v2 has {"background": 0, "liver": 1}`,
    );
  const read = Object.entries(labels).map(([name, value]) => {
    const { success, data } = label.safeParse(value);
    if (!success)
      throw new UsageError(`${file}: the label ${quoteName(name)} is not a whole number, nor a list of such`);
    return { name, values: [data].flat() };
  });
  if (!read.some(({ name, values }) => name === 'background' && values[0] === 0))
    throw new UsageError(`${file}: there is no label 'background' of 0`);
  const kept = read.filter(({ name, values }) => name !== 'ignore' && values.some((value) => value !== 0));
  if (kept.length === 0) throw new UsageError(`${file} has no label but the background`);
  if (kept.every(({ values }) => values.length === 1))
    return kept.map(({ name, values: [value = 0] }) => ({ name, value }));
  if (order?.length !== kept.length)
    throw new UsageError(
      `${file} has ${counted(kept.length, 'region')}, and 'regions_class_order' has ${order?.length ?? 'no'} values: there has to be one for each`,
    );
  return kept.map(({ name, values }, index) => ({ name, value: order[index] ?? 0, values }));
}

/** The folds with weights. */
function foldsOf(directory: string): Pick<NnunetFolder, 'folds' | 'notes'> {
  const all = readdirSync(directory)
    .filter((name) => /^fold_(\d+|all)$/.test(name) && isDirectory(path.join(directory, name)))
    .sort((one, other) => one.localeCompare(other, 'en', { numeric: true }));
  const whole = all.filter((name) => existsSync(path.join(directory, name, checkpoint)));
  const quoted = quotePath(directory);
  if (all.length === 0) throw new UsageError(`${quoted} has no fold: there is no fold_0 and no fold_all`);
  if (whole.length === 0) {
    const others = all.flatMap((name) =>
      namesIn(path.join(directory, name))
        .filter((each) => each.endsWith('.pth'))
        .map((each) => `${name}/${each}`),
    );
    const there = others.length > 0 ? `: there is ${excerpt(others.join(', '))}` : '';
    throw new UsageError(
      `No fold of ${quoted} has ${checkpoint}, which the end of a training writes${there}`,
    );
  }
  const numbered = whole.filter((name) => name !== 'fold_all');
  const used = numbered.length > 0 ? numbered : whole;
  const folds = used.map((name) => {
    const file = path.join(directory, name, checkpoint);
    checkCheckpoint(file);
    return { name: `${name}.pth`, file };
  });
  const unfinished = all.filter((name) => !whole.includes(name));
  return {
    folds,
    notes: [
      ...unfinished.map((name) => `${name} is left out: it has no ${checkpoint}`),
      ...(used.length < whole.length
        ? ['fold_all is left out, as nnU-Net leaves it out beside other folds']
        : []),
    ],
  };
}

/**
 * Reads the results folder of an nnU-Net v2 network.
 * @throws UsageError that says what is missing, or what was probably meant
 */
export function readNnunetFolder(named: string): NnunetFolder {
  const directory = findNetwork(named);
  const { trainer, configuration } = partsOf(directory);
  const place = (name: string) => path.join(directory, name);
  const { content: dataset } = readModelFile(place('dataset.json'), datasetSchema, 'nnU-Net v2');
  const { content: plans } = readModelFile(place('plans.json'), plansSchema, 'nnU-Net v2');
  const file = quotePath(place('dataset.json'));
  const { file_ending: fileEnding } = dataset;
  if (fileEnding === undefined || !endings.includes(fileEnding))
    throw new UsageError(
      `${file} has ${fileEnding === undefined ? 'no file_ending' : `the file_ending ${quoteName(fileEnding)}`}: only volumes can be served (${endings.join(', ')})`,
    );
  return {
    directory,
    trainer,
    configuration,
    ...configurationOf(plans, directory, configuration),
    channels: channelsOf(dataset, file),
    labels: labelsOf(dataset, file),
    fileEnding,
    about: {
      name: dataset.name,
      description: dataset.description,
      reference: dataset.reference,
      licence: dataset.licence || dataset.license,
    },
    ...foldsOf(directory),
  };
}
