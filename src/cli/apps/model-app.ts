import { readdirSync } from 'node:fs';
import { UsageError } from '../../client/errors.js';
import { quotePath } from '../../contract/index.js';
import { errorCode, faultWithoutPath } from '../../files/index.js';

/** The kinds of trained networks that `init --from` makes an app of. */
export const modelKinds = ['nnunet', 'monai-bundle', 'totalsegmentator'] as const;
export type ModelKind = (typeof modelKinds)[number];

/** Whether a kind is named by a task, and not by the folder of a network. */
export const hasTasks = (kind: ModelKind): boolean => kind === 'totalsegmentator';

/** What is known of a trained network before it is read. */
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
  /** What of the source was left out, in sentences. */
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

/** A text as a sentence. */
export const sentence = (text: string): string =>
  /[.!?]$/.test(text.trim()) ? text.trim() : `${text.trim()}.`;

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

/** What each app of a network writes, and the evaluation that `evaluation.py` of `templates/from/shared` makes of it. */
export const segmentation = {
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
 * What a folder of a network has, by name.
 * @param instead asked of a file: what it is and what to name, in words behind its own name
 * @throws UsageError for what is no folder, or cannot be read
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
