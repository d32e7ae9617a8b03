import type { Interfaces } from '@oclif/core';
import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import type { ConversionRequest } from '../../client/case/index.js';
import { resultFormats } from '../../client/result-formats.js';
import {
  defaultOutput,
  type Field,
  type FieldKind,
  flagName,
  isOfService,
  isTyped,
  type OperationName,
  operationOf,
} from '../../contract/index.js';
import {
  appFlag,
  type ConnectionFlags,
  deidentifyFlags,
  killTimeoutFlag,
  noZipFlag,
  outputFlags,
  waitFlag,
  wholeNumber,
} from '../command/index.js';
import { selectionFlags } from './choose-files.js';
import { seriesFlags } from './choose-series.js';
import type { Word } from './path-order.js';

/** The placeholder of a value in help texts, by the field's kind. */
const placeholders: Readonly<Record<FieldKind, string>> = {
  files: 'PATH[,PATH]',
  archive: 'PATH',
  integer: 'N',
  number: 'X',
  boolean: '',
  name: 'NAME',
  path: 'FILE',
  paths: 'NAME[,NAME]',
  gpus: 'ID[,ID]',
  integers: 'N[,N]',
  overrides: 'NAME=VALUE',
  text: 'TEXT',
  duration: 'TIME',
};

/** Fields whose flags are used often. They come first in the help, in this order. */
const often = ['inputs', 'gt', 'mask', 'dataset', 'gpu', 'cpu', 'config_overrides'];

/** The section of the help text that lists a field's flag. */
function helpGroup(field: Field): { helpGroup?: string } {
  if (often.includes(field.name)) return {};
  return { helpGroup: isOfService(field) ? 'JOB' : 'APP' };
}

/** The form's spelling of a flag, with underscores. */
function aliases(field: Field): string[] {
  const name = flagName(field);
  return field.name === name ? [] : [field.name];
}

/**
 * The flag for a field. Its value stays text here, because contract/values.ts parses it, as on the server. A repeatable flag
 * takes one value per occurrence, so it never swallows a path that follows it.
 */
function fieldFlag(field: Field, fields: readonly Field[]): Interfaces.Flag<unknown> {
  const known = field.default === undefined ? '' : ` [default: ${field.default}]`;
  const shared = {
    aliases: aliases(field),
    exclusive: fields.filter(({ name }) => name === field.alternative).map(flagName),
    description: field.help + known,
    ...helpGroup(field),
    ...(field.char ? { char: field.char as Interfaces.AlphabetLowercase } : {}),
  };
  if (field.kind === 'boolean')
    return Flags.boolean({ ...shared, allowNo: true }) as Interfaces.Flag<unknown>;
  const helpValue = placeholders[field.kind];
  const repeats = field.kind === 'files' || field.kind === 'overrides';
  return (
    repeats
      ? Flags.string({ ...shared, helpValue, multiple: true, multipleNonGreedy: true })
      : Flags.string({ ...shared, helpValue })
  ) as Interfaces.Flag<unknown>;
}

/** The flags for an operation's fields. Fields that users cannot set get no flag; frequently used ones come first. */
function operationFlags(name: OperationName): Record<string, Interfaces.Flag<unknown>> {
  const fields = operationOf(name).fields.filter(isTyped);
  const known = often.flatMap((each) => fields.filter((field) => field.name === each));
  return Object.fromEntries(
    [...new Set([...known, ...fields])].map((field) => [flagName(field), fieldFlag(field, fields)]),
  );
}

/** Moves a less common flag to the JOB section of the help. */
const less = <T extends object>(flag: T): T => ({ ...flag, helpGroup: 'JOB' });

/** Flags that select which files in a directory are sent. */
export const sendingFlags = {
  'all-files': Flags.boolean({
    default: false,
    helpGroup: 'JOB',
    description: 'Also send files that are not volumes, such as README, .json, .bval, .tsv and .txt',
  }),
  ...seriesFlags,
  ...selectionFlags,
};

/** The flags of every submission, besides the fields of its operation. */
export const runFlags = {
  ...outputFlags,
  force: less(outputFlags.force),
  'no-zip': less(noZipFlag),
  wait: less(waitFlag),
  'kill-timeout': less(killTimeoutFlag),
  ...sendingFlags,
  ...deidentifyFlags,
  'dry-run': Flags.boolean({
    helpGroup: 'PRIVACY',
    description:
      'Print what would leave this machine (files, names, sizes, what is kept and what is removed) without sending ' +
      'anything. Needs no server',
  }),
  yes: Flags.boolean({
    char: 'y',
    helpGroup: 'JOB',
    description: 'Ask no questions; send all series of a directory that contains several',
  }),
  detach: Flags.boolean({
    // These flags concern the result, which --detach does not fetch.
    exclusive: ['output', 'force', 'wait', 'no-zip'],
    description:
      "Print only the job's id and return at once; the server keeps the job as with '--keep max' by default",
  }),
  'on-end': Flags.string({
    helpGroup: 'JOB',
    helpValue: 'COMMAND',
    exclusive: ['detach'],
    description:
      'Shell command to run when this command ends, whether it succeeds or fails; it gets a JSON document about ' +
      'the outcome on stdin',
  }),
};

/** Draws the result on a terminal. */
export const showFlag = {
  show: Flags.boolean({
    helpGroup: 'JOB',
    exclusive: ['detach', 'each'],
    description: "On a terminal, finish by drawing the result on the scans, as 'remote-app show' does",
  }),
};

/** What results are converted to. */
const conversionFlags = {
  as: Flags.option({ options: resultFormats, multiple: true, multipleNonGreedy: true })({
    helpGroup: 'JOB',
    exclusive: ['detach'],
    description:
      'Also convert the result for viewers, beside the original (repeatable): a DICOM segmentation (dicom-seg; ' +
      'dicom-labelmap has all labels in one frame) or contours (rtstruct) in the study of the scan, a 3D Slicer ' +
      'segmentation (nrrd), NIfTI (nifti), or a derived series of an intensity image (dicom)',
  }),
  strict: Flags.boolean({
    helpGroup: 'JOB',
    dependsOn: ['as'],
    description:
      "With --as, refuse a label map whose grid differs from its scan's; by default it is resampled with the " +
      'nearest labels',
  }),
};

type ConversionFlags = Partial<Interfaces.InferredFlags<typeof conversionFlags>>;

/** The conversion requested by these flags; undefined without `--as`. */
export const conversionOf = ({ as = [], strict }: ConversionFlags): ConversionRequest | undefined =>
  as.length === 0 ? undefined : { formats: [...new Set(as)], isStrict: strict ?? false };

/** The flags of the operations that can run one job for each case. */
const eachFlags = {
  output: {
    ...outputFlags.output,
    description:
      `${outputFlags.output.description}; with --each, the directory for all results [default: ${defaultOutput}, ` +
      'even if it contains files]',
  },
  force: less({
    ...outputFlags.force,
    description: `${outputFlags.force.description}; with --each, compute all cases again`,
  }),
  each: Flags.boolean({
    helpGroup: 'EACH',
    exclusive: ['detach'],
    description:
      'Run one job per volume, together with the files of the other groups that are paired with it. Each result ' +
      'goes below --output, under the path of its input. Finished cases are not sent again, so repeating the ' +
      'command continues where it stopped',
  }),
  'at-most': wholeNumber({
    helpGroup: 'EACH',
    helpValue: 'N',
    min: 1,
    max: 256,
    dependsOn: ['each'],
    description: "Maximum number of jobs at once, within the server's own limit [default: 4]",
  }),
  'fail-fast': Flags.boolean({
    helpGroup: 'EACH',
    dependsOn: ['each'],
    description: 'Stop at the first case that fails, instead of continuing with the others',
  }),
  'keep-version': Flags.boolean({
    helpGroup: 'EACH',
    dependsOn: ['each'],
    exclusive: ['force'],
    description:
      'After an upgrade of the app, keep the results of the earlier version and compute only the remaining cases; ' +
      '--force computes all of them again',
  }),
  'skip-incomplete': Flags.boolean({
    helpGroup: 'EACH',
    dependsOn: ['each'],
    description:
      'Skip cases that lack a file in one of the groups; by default nothing is sent if there are any',
  }),
  layout: Flags.option({ options: ['cases', 'bids'] as const })({
    helpGroup: 'EACH',
    dependsOn: ['each'],
    description:
      'How --output is organised: one directory per case, or a BIDS derivatives data set [default: cases]',
  }),
  watch: Flags.boolean({
    helpGroup: 'EACH',
    dependsOn: ['each', 'json'],
    description:
      'With --json, print each change of a case as it happens, one JSON document per line; the last line ' +
      'summarises all cases',
  }),
};

/** The parsed flags of `eachFlags`. */
export type EachFlags = Interfaces.InferredFlags<typeof eachFlags>;

type RunFlags = Interfaces.InferredFlags<typeof runFlags & { app: typeof appFlag }>;

/** The parsed command line of an operation. */
export interface ParsedSubmit {
  readonly flags: ConnectionFlags &
    RunFlags &
    ConversionFlags &
    Partial<EachFlags> &
    Readonly<Record<string, unknown>>;
  readonly args: { readonly paths?: readonly string[] | undefined };
  /** Flags and arguments, in order. */
  readonly raw: readonly Word[];
}

/** All flags of an operation's command: those of its fields, and those that all operations share. */
export const submitFlags = (name: OperationName) => ({
  app: appFlag,
  ...operationFlags(name),
  ...runFlags,
  ...(operationOf(name).paths === 'dataSet' ? {} : { ...conversionFlags, ...eachFlags }),
});

/** The volumes: all arguments that are not flags. */
export const volumeArgs = {
  paths: Args.string({
    multiple: true,
    ignoreStdin: true,
    description: 'Files, patterns or directories; a DICOM series or .zarr store is sent as a whole',
  }),
};

/** The data set of a fine-tuning. */
export const datasetArgs = {
  paths: Args.string({
    multiple: true,
    ignoreStdin: true,
    description: 'The data set: a directory, or a zip archive of it',
  }),
};
