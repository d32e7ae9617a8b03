import { readdirSync, realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { excerpt, quotePath } from '../../contract/index.js';
import { bytesAt, errorCode, faultWithoutPath, firstBytes } from '../../files/index.js';

/** The kinds of trained networks that `init --from` turns into an app. */
export const modelKinds = ['nnunet', 'monai-bundle', 'totalsegmentator'] as const;
export type ModelKind = (typeof modelKinds)[number];

/** Whether the network is selected by a task instead of a folder. */
export const hasTasks = (kind: ModelKind): boolean => kind === 'totalsegmentator';

/** Where a trained network is, as the user named it. */
export interface ModelSource {
  /** Absolute path of the network's folder; undefined if none was named. */
  readonly source: string | undefined;
  /** The task of TotalSegmentator. */
  readonly task: string | undefined;
  /** The directory that has the weights of the task, absolute. */
  readonly weights: string | undefined;
  readonly environment: NodeJS.ProcessEnv;
  /** The directory of this package. */
  readonly root: string;
}

/** A trained network as an app: the contents of its `app.json`, and its files. */
export interface ModelApp {
  /** `app.json` without the name, the schema and the command. */
  readonly manifest: Readonly<Record<string, unknown>>;
  /** Files of `templates/from/KIND`, or of `templates/from/shared`. */
  readonly templates: readonly string[];
  /** Other files of the app: name to content. */
  readonly texts?: Readonly<Record<string, string>>;
  /** Files copied from the source: name in the app to path in the source. */
  readonly copies: Readonly<Record<string, string>>;
  /** Weights, which may be large: name in the app to path in the source. */
  readonly weights: Readonly<Record<string, string>>;
  /** The README's section about the network, in Markdown. */
  readonly about: string;
  /** Where the network was read from; null if nothing had to be read. */
  readonly source: string | null;
  /** Weights that were not found, by name; `main.py fetch` of the app downloads them. */
  readonly missing?: readonly string[];
  /** Sentences about parts of the source that were left out. */
  readonly notes: readonly string[];
}

/** The colour of a label. The golden angle keeps any number of hues apart. */
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

/** Joins facts into a description: one sentence each, empty ones skipped. */
export const inSentences = (facts: readonly string[]): string =>
  facts
    .filter((fact) => fact !== '')
    .map((fact) => excerpt(fact.trim(), 1000))
    .map((fact) => (/[.!?]$/.test(fact) ? fact : `${fact}.`))
    .join(' ');

/** The names and colours of labels, in the format of `app.json`. */
export const terminologyOf = (
  labels: readonly { readonly value: number; readonly name: string; readonly values?: readonly number[] }[],
) =>
  Object.fromEntries(
    labels.map(({ name, value, values }, index) => [
      value,
      { name, color: colourOf(index), ...(values && { values }) },
    ]),
  );

/** The README's example command for a network with these channels. */
export const inferLine = (channels: readonly string[]): string =>
  `remote-app infer ${channels.length > 1 ? channels.map((_, index) => `-i CHANNEL_${index}`).join(' ') : './scans'}`;

/** What the README says of every app with `evaluation.py`. */
export const aboutEvaluation =
  '- `evaluate` and `pipeline` compare with true labels: Dice, and surfaces within the tolerance of `Evaluation.yml`.';

/** The citation of nnU-Net, which TotalSegmentator also uses. */
export const nnunetReference = {
  text: 'Isensee F, Jaeger PF, Kohl SAA, Petersen J, Maier-Hein KH. nnU-Net: a self-configuring method for deep learning-based biomedical image segmentation. Nature Methods 18, 203-211 (2021).',
  doi: '10.1038/s41592-020-01008-z',
};

/** An input or output in the format of `app.json`. */
export const volume = (name: string, type: string, more = {}) => ({
  display_name: name,
  volume_type: type,
  required: true,
  ...more,
});

/**
 * The inputs of a network, one for each channel. Their names are not plain numbers, because JavaScript sorts numeric keys and no
 * others.
 */
export const channelInputs = (channels: readonly string[], isHounsfield: (name: string) => boolean) =>
  Object.fromEntries(
    channels.map((name, index) => [
      `Channel_${index}`,
      volume(name, 'VOLUME', isHounsfield(name) ? { unit: 'HU' } : {}),
    ]),
  );

/**
 * The part of `app.json` that all apps of networks share: how they run, what they write, and the evaluation by `evaluation.py`.
 */
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
 * The names of the entries in a network's folder.
 * @param instead for a file in place of a folder, returns the end of the message, which says what to name
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

/**
 * A PyTorch checkpoint is a zip archive. These are its first bytes, and the first bytes of its end record, which is 22 bytes
 * long.
 */
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
 * Resolves links, and refuses a file outside the model's folder: a model from somebody else could link to this user's secrets.
 * @throws UsageError for a file outside the folder
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
