import { readdirSync, realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { excerpt, quotePath } from '../../contract/index.js';
import { bytesAt, errorCode, faultWithoutPath, firstBytes } from '../../files/index.js';

/** The kinds of trained networks that `init --from` makes an app of. */
export const modelKinds = ['nnunet', 'monai-bundle', 'totalsegmentator'] as const;
export type ModelKind = (typeof modelKinds)[number];

/** Whether a kind is named by a task, and not by the folder of a network. */
export const hasTasks = (kind: ModelKind): boolean => kind === 'totalsegmentator';

/** Where a trained network is, as the user named it. */
export interface ModelSource {
  /** The folder of the network, absolute; undefined where none was named. */
  readonly source: string | undefined;
  /** The task of TotalSegmentator. */
  readonly task: string | undefined;
  /** The directory that has the weights of the task, absolute. */
  readonly weights: string | undefined;
  readonly environment: NodeJS.ProcessEnv;
  /** The directory of this package. */
  readonly root: string;
}

/** A trained network as an app: what `app.json` says of it, and which files it is made of. */
export interface ModelApp {
  /** `app.json`, but for its name, its schema and its command. */
  readonly manifest: Readonly<Record<string, unknown>>;
  /** Files of `templates/from/KIND`, or of `templates/from/shared`. */
  readonly templates: readonly string[];
  /** Other files of the app, with their texts. */
  readonly texts?: Readonly<Record<string, string>>;
  /** Other files of the app, with the files of the source that they are copies of. */
  readonly copies: Readonly<Record<string, string>>;
  /** The same for weights, which may be large. */
  readonly weights: Readonly<Record<string, string>>;
  /** What the README says of it, in Markdown. */
  readonly about: string;
  /** Where the network was read; null if there was nothing to read. */
  readonly source: string | null;
  /** Weights that were not found, by name; `main.py fetch` of the app downloads them. */
  readonly missing?: readonly string[];
  /** Sentences about parts of the source that were left out. */
  readonly notes: readonly string[];
}

/** A colour for each label. The golden angle keeps the hues of any number of labels apart. */
export function colourOf(index: number): string {
  const hue = (index * 137.508 + 10) % 360;
  const lightness = [0.58, 0.44, 0.72][index % 3] ?? 0.58;
  const reach = 0.62 * Math.min(lightness, 1 - lightness);
  const part = (offset: number) => {
    const at = (offset + hue / 30) % 12;
    const value = lightness - reach * Math.max(-1, Math.min(at - 3, 9 - at, 1));
    return Math.round(255 * value)
      .toString(16)
      .padStart(2, '0');
  };
  return `#${part(0)}${part(8)}${part(4)}`;
}

/** The description of an app: each fact as a sentence, without empty ones. */
export const inSentences = (facts: readonly string[]): string =>
  facts
    .filter((fact) => fact !== '')
    .map((fact) => excerpt(fact.trim(), 1000))
    .map((fact) => (/[.!?]$/.test(fact) ? fact : `${fact}.`))
    .join(' ');

/** The names and colours of labels, as `app.json` has them. */
export const terminologyOf = (
  labels: readonly { readonly value: number; readonly name: string; readonly values?: readonly number[] }[],
) =>
  Object.fromEntries(
    labels.map(({ name, value, values }, index) => [
      value,
      { name, color: colourOf(index), ...(values && { values }) },
    ]),
  );

/** The command line that runs a network with these channels, for the README. */
export const inferLine = (channels: readonly string[]): string =>
  `remote-app infer ${channels.length > 1 ? channels.map((_, index) => `-i CHANNEL_${index}`).join(' ') : './scans'}`;

/** What the README says of every app with `evaluation.py`. */
export const aboutEvaluation =
  '- `evaluate` and `pipeline` compare with true labels: Dice, and surfaces within the tolerance of `Evaluation.yml`.';

/** What to cite of nnU-Net, which TotalSegmentator also uses. */
export const nnunetReference = {
  text: 'Isensee F, Jaeger PF, Kohl SAA, Petersen J, Maier-Hein KH. nnU-Net: a self-configuring method for deep learning-based biomedical image segmentation. Nature Methods 18, 203-211 (2021).',
  doi: '10.1038/s41592-020-01008-z',
};

/** What an app reads or writes, as `app.json` declares it. */
export const volume = (name: string, type: string, more = {}) => ({
  display_name: name,
  volume_type: type,
  required: true,
  ...more,
});

/**
 * The groups of inputs of a network, one for each of its channels. Their names are not numbers alone: JavaScript sorts keys that are
 * numbers, but no others.
 */
export const channelInputs = (channels: readonly string[], isHounsfield: (name: string) => boolean) =>
  Object.fromEntries(
    channels.map((name, index) => [
      `Channel_${index}`,
      volume(name, 'VOLUME', isHounsfield(name) ? { unit: 'HU' } : {}),
    ]),
  );

/** What `app.json` says of every app of a network: how it runs, what it writes, and the evaluation by `evaluation.py`. */
export const segmentation = {
  resident: true,
  mc_dropout: 0,
  outputs: { Labels: volume('Labels', 'SEGMENTATION') },
  inputs_evaluations: {
    'Overlap and surface distance': {
      'Evaluation.yml': {
        Labels: volume('Predicted labels', 'SEGMENTATION'),
        Truth: volume('True labels', 'SEGMENTATION'),
        Mask: volume('Region to evaluate', 'SEGMENTATION', { required: false }),
      },
    },
  },
};

/**
 * The names in the folder of a network.
 * @param instead for a file instead of a folder: the rest of the sentence, which says what to name
 * @throws UsageError for a file, and for a folder that cannot be read
 */
export function namesInFolder(folder: string, instead: (file: string) => string): string[] {
  try {
    return readdirSync(folder);
  } catch (cause) {
    const what =
      errorCode(cause) === 'ENOTDIR'
        ? instead(folder)
        : `is not a folder that can be read: ${faultWithoutPath(cause)}`;
    throw new UsageError(`${quotePath(folder)} ${what}`, { cause });
  }
}

/** A checkpoint is a zip archive: its first bytes, and the start of its end record, which has 22 bytes. */
const archiveStart = Buffer.from('PK\x03\x04', 'latin1');
const archiveEnd = Buffer.from('PK\x05\x06', 'latin1');
const endBytes = 22;

/** Why a file is not a checkpoint of PyTorch; null if it looks like one. */
function checkpointFault(file: string): string | null {
  const start = firstBytes(file, 200);
  if (start.length === 0) return 'it is empty, or cannot be read';
  if (start.toString('latin1').startsWith('version https://git-lfs'))
    return "it is a pointer of Git LFS: run 'git lfs pull' where it comes from";
  if (!start.subarray(0, 4).equals(archiveStart)) return 'it is not a checkpoint of PyTorch';
  const end = bytesAt(file, Math.max(statSync(file).size - endBytes, 0), 4);
  return end.equals(archiveEnd) ? null : 'its end is missing: copy it again';
}

/**
 * Resolves links, and refuses one that leads out of the model's folder: a model from somebody else could link to secrets of this
 * user.
 * @throws UsageError for another place
 */
export function checkIsInside(file: string, folder: string): string {
  const real = realpathSync(file);
  if (`${real}${path.sep}`.startsWith(`${realpathSync(folder)}${path.sep}`)) return real;
  throw new UsageError(
    `${quotePath(file)} is a link that leads out of ${quotePath(folder)}, to ${quotePath(real)}: if that file belongs to the model, put a copy of it there`,
  );
}

/** @throws UsageError for a file that is not a complete checkpoint. @param remedy the end of the message */
export function checkCheckpoint(file: string, remedy = ''): void {
  const fault = checkpointFault(file);
  if (fault !== null) throw new UsageError(`${quotePath(file)} cannot be used: ${fault}${remedy}`);
}
