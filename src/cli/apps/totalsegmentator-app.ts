import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { UsageError } from '../../client/errors.js';
import { counted, excerpt, nearest, quoteName, quotePath } from '../../contract/index.js';
import { namesIn, readSmallFile } from '../../files/index.js';
import {
  aboutEvaluation,
  checkCheckpoint,
  colourOf,
  type ModelApp,
  type ModelSource,
  nnunetReference,
  segmentation,
  volume,
} from './model-app.js';
import { readModelFile } from './model-file.js';

/** Where to find a TotalSegmentator network, relative to the weights directory. */
interface Network {
  readonly folder: string;
  /** The release that has it; null for one that needs a licence. */
  readonly release: string | null;
  /** `TRAINER__PLANS__CONFIGURATION`. */
  readonly network: string;
  /** Null for all existing folds. */
  readonly folds: readonly number[] | null;
}

interface Task {
  readonly modality: 'CT' | 'MR';
  readonly licence: boolean;
  /** Ids of the networks; those that find the region to crop to come first. */
  readonly default: readonly number[];
  /** The networks with `fast`; absent for a task without it. */
  readonly fast?: readonly number[];
  /** The names of the labels 1, 2, 3 and so on. */
  readonly labels: readonly string[];
}

/** `tasks.json`: the tasks as TotalSegmentator defines them, so that Python is not needed. */
interface Facts {
  /** Version of the TotalSegmentator package. */
  readonly version: string;
  readonly releases: string;
  readonly networks: Readonly<Record<string, Network>>;
  readonly tasks: Readonly<Record<string, Task>>;
  readonly structures: Readonly<Record<string, { readonly color: string; readonly snomed?: object }>>;
}

const maxBytes = 1024 * 1024;

const academicLicence = 'https://backend.totalsegmentator.com/license-academic/';

function taskOf({ tasks }: Facts, name: string): Task {
  const task = Object.hasOwn(tasks, name) ? tasks[name] : undefined;
  if (task) return task;
  const near: string[] = [];
  for (let left = Object.keys(tasks); near.length < 3; left = left.filter((each) => !near.includes(each))) {
    const found = nearest(name, left);
    if (found === null) break;
    near.push(found);
  }
  const hint =
    near.length > 0
      ? `did you mean ${near.map((each) => quoteName(each)).join(' or ')}?`
      : `there are ${Object.keys(tasks).join(', ')}`;
  throw new UsageError(`TotalSegmentator has no task ${quoteName(name)}; ${hint}`);
}

/** The directory of this user's TotalSegmentator settings. */
const homeOf = ({ TOTALSEG_HOME_DIR, HOME }: NodeJS.ProcessEnv): string =>
  path.resolve(TOTALSEG_HOME_DIR || path.join(HOME || homedir(), '.totalsegmentator'));

const settingsSchema = z.object({ license_number: z.string().optional() });

/** The licence number that `totalseg_set_license` saved. @throws UsageError if there is none */
function licenceNumber(task: string, environment: NodeJS.ProcessEnv): string {
  const file = path.join(homeOf(environment), 'config.json');
  const number = existsSync(file)
    ? readModelFile(file, settingsSchema, 'TotalSegmentator').content.license_number
    : undefined;
  // The package's own offline check of a licence number.
  if (number?.length === 18) return number;
  const what = number === undefined ? 'has no licence number' : 'has a licence number that is none';
  throw new UsageError(
    `The task ${quoteName(task)} needs a licence of TotalSegmentator, free for non-commercial use, and ${quotePath(file)} ${what}: ` +
      `get one at ${academicLicence}, and run 'totalseg_set_license -l NUMBER'`,
  );
}

/**
 * The directory that contains the weights as `DatasetNNN_NAME`: the usual subdirectory of a TotalSegmentator home, otherwise the
 * directory itself.
 */
function weightsIn(directory: string): string {
  const results = path.join(directory, 'nnunet', 'results');
  return existsSync(results) ? results : directory;
}

/** The directory of this user's weights; null if it does not exist. */
function ownWeights(environment: NodeJS.ProcessEnv): string | null {
  const named = environment.TOTALSEG_WEIGHTS_PATH;
  const place = path.resolve(named || path.join(homeOf(environment), 'nnunet', 'results'));
  return existsSync(place) ? place : null;
}

/** A network that the task needs, with its files relative to the weights directory. */
interface Needed {
  readonly id: number;
  readonly folder: string;
  readonly url: string | null;
  readonly descriptions: readonly string[];
  readonly checkpoints: readonly string[];
  readonly isThere: boolean;
}

/** @throws UsageError for incomplete weights */
function neededNetwork({ networks, releases }: Facts, directory: string | null, id: number): Needed {
  const { folder, release, network, folds } = networks[id] as Network;
  const place = `${folder}/${network}`;
  const names =
    folds === null
      ? namesIn(path.join(directory ?? '', place)).filter((name) => /^fold_(\d+|all)$/.test(name))
      : folds.map((fold) => `fold_${fold}`);
  const checkpoints = names.map((name) => `${place}/${name}/checkpoint_final.pth`);
  const descriptions = ['dataset.json', 'plans.json'].map((name) => `${place}/${name}`);
  const files = [...descriptions, ...checkpoints];
  const isThere =
    directory !== null &&
    checkpoints.length > 0 &&
    files.every((file) => existsSync(path.join(directory, file)));
  if (isThere) {
    const remedy = `; without ${quotePath(path.join(directory, folder))} TotalSegmentator downloads it again`;
    for (const file of checkpoints) checkCheckpoint(path.join(directory, file), remedy);
  }
  const url = release === null ? null : `${releases}/${release}/${folder}.zip`;
  return { id, folder, url, descriptions, checkpoints, isThere };
}

const folders = (networks: readonly Needed[]): string =>
  excerpt(networks.map(({ folder }) => folder).join(', '), 1000);

function manifestOf(name: string, { modality, licence, labels, fast }: Task, { structures, version }: Facts) {
  const terms = licence
    ? 'The weights need a licence, which is free for non-commercial use alone'
    : 'The weights are openly available';
  return {
    short_description: `Segments ${excerpt(labels.join(', '), 200)}`,
    description: `The task ${name} of TotalSegmentator ${version}, in ${modality}: ${counted(labels.length, 'label')}. ${terms}. Not a medical device.`,
    tta: 0,
    models: [],
    citation: [
      {
        text: 'Wasserthal J, Breit HC, Meyer MT, et al. TotalSegmentator: robust segmentation of 104 anatomic structures in CT images. Radiology: Artificial Intelligence 5 (2023).',
        doi: '10.1148/ryai.230024',
        licence: licence ? 'free for non-commercial use alone, with a licence number' : 'Apache-2.0',
      },
      nnunetReference,
    ],
    parameters: fast
      ? {
          fast: {
            default: false,
            description: 'A network of a lower resolution: faster, and needs less memory',
          },
        }
      : {},
    inputs: { Scan: volume(modality, 'VOLUME', modality === 'CT' ? { unit: 'HU' } : {}) },
    ...segmentation,
    terminology: Object.fromEntries(
      labels.map((label, index) => [
        String(index + 1),
        { name: label, color: colourOf(index), ...structures[label] },
      ]),
    ),
  };
}

const aboutOf = (
  name: string,
  { modality, licence, labels, fast }: Task,
  networks: readonly Needed[],
): string =>
  `The task \`${name}\` of TotalSegmentator (Wasserthal et al., https://doi.org/10.1148/ryai.230024), for ${modality}: ${counted(labels.length, 'label')}.
The program of this app calls its Python API, which is under the Apache License 2.0. ${
    licence
      ? `The weights of this task need a licence, which is free for
non-commercial use alone; \`.totalsegmentator/config.json\` has your number, and no client can download it.`
      : 'The weights of this task are openly available.'
  }
Weights are Python pickles: loading them runs what is in them, so take them only from somebody whom you trust.

    remote-app infer ./scans --gpu 0${fast ? '\n    remote-app infer ./scans --gpu 0 --set fast=true      # a lower resolution: faster, less memory' : ''}
    remote-app pipeline ./scans --gt ./labels --gpu 0 --no-uncertainty

- \`weights/\` has ${networks.map(({ folder }) => `\`${folder}\``).join(', ')}. \`main.py fetch\` downloads those that are missing.
- A result has the name of its scan, and the labels of \`TotalSegmentator --ml\`.
- The app stays loaded from job to job, but TotalSegmentator loads its networks anew for each case: its API has no way to keep them.
- No usage statistics are sent: \`.totalsegmentator/config.json\` says so, and the sandbox has no network.
${aboutEvaluation}
`;

/** @throws UsageError for an unknown task, a missing licence, and missing or incomplete weights */
export function totalsegmentatorApp({
  task: name = 'total',
  weights,
  environment,
  root,
}: ModelSource): ModelApp {
  const file = path.join(root, 'templates', 'from', 'totalsegmentator', 'tasks.json');
  const facts = JSON.parse(readSmallFile(file, maxBytes)) as Facts;
  const task = taskOf(facts, name);
  const licence = task.licence ? { license_number: licenceNumber(name, environment) } : {};
  if (weights !== undefined && namesIn(weights).length === 0)
    throw new UsageError(
      `${quotePath(weights)} is not a folder with weights: it cannot be read, or is empty`,
    );
  const directory = weights === undefined ? ownWeights(environment) : weightsIn(weights);
  const modes = Object.entries({ default: task.default, fast: task.fast ?? [] })
    .filter(([, ids]) => ids.length > 0)
    .map(([mode, ids]) => ({ mode, networks: ids.map((id) => neededNetwork(facts, directory, id)) }));
  const all = [...new Map(modes.flatMap(({ networks }) => networks).map((each) => [each.id, each])).values()];
  const missing = all.filter(({ isThere }) => !isThere);
  const isAnyModeWhole = modes.some(({ networks }) => networks.every(({ isThere }) => isThere));
  if (weights !== undefined && !isAnyModeWhole)
    throw new UsageError(
      `${quotePath(weights)} lacks weights of the task ${quoteName(name)}: ${folders(missing)}; name the folder that they are in, ` +
        'such as ~/.totalsegmentator/nnunet/results, or leave --weights out: with --venv they are downloaded',
    );
  const found = directory === null ? [] : all.filter(({ isThere }) => isThere);
  const inApp = (names: readonly string[]) =>
    Object.fromEntries(
      names.map((each) => [path.posix.join('weights', each), path.join(directory ?? '', each)]),
    );
  const settings = {
    totalseg_id: '',
    send_usage_stats: false,
    prediction_counter: 0,
    statistics_disclaimer_shown: true,
    ...licence,
  };
  const networksOf = (networks: readonly Needed[]) =>
    networks.map(({ id, folder, url, descriptions, checkpoints }) => ({
      id,
      folder,
      url,
      files: [...descriptions, ...checkpoints],
    }));
  const networks = Object.fromEntries(modes.map(({ mode, networks: some }) => [mode, networksOf(some)]));
  return {
    manifest: manifestOf(name, task, facts),
    templates: ['main.py', 'cases.py', 'evaluation.py', 'requirements.txt', 'Evaluation.yml'],
    texts: {
      'task.json': `${JSON.stringify({ task: name, networks }, null, 2)}\n`,
      '.totalsegmentator/config.json': `${JSON.stringify(settings, null, 2)}\n`,
    },
    copies: inApp(found.flatMap(({ descriptions }) => descriptions)),
    weights: inApp(found.flatMap(({ checkpoints }) => checkpoints)),
    about: aboutOf(name, task, all),
    source: found.length > 0 ? directory : null,
    missing: weights === undefined ? missing.map(({ folder }) => folder) : [],
    notes:
      weights !== undefined && missing.length > 0
        ? [
            `${folders(missing)} of the task are not in ${quotePath(weights)}: 'main.py fetch' of the app downloads them`,
          ]
        : [],
  };
}
