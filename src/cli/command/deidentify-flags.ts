import * as Flags from '@oclif/core/flags';
import { defaultProfile } from '../../client/connection/index.js';
import { UsageError } from '../../client/errors.js';
import type { DeidentifyChoice, Mode } from '../../client/outgoing.js';
import type { Settings, TypedFlags } from './settings.js';
import { FlagValueError } from './usage-errors.js';

/** The values of the flag and of the variable, with the mode that each selects. */
const modes: Readonly<Record<string, Mode | 'no'>> = {
  ...{ full: 'full', names: 'names', no: 'no' },
  ...{ 1: 'full', true: 'full', yes: 'full', 0: 'no', false: 'no' },
};

/** Whether and how files are de-identified. Without a value, the flag means `full` (`withValue`). */
export const deidentifyFlag = Flags.custom<Mode | 'no'>({
  helpGroup: 'PRIVACY',
  helpValue: '[=full|names]',
  env: 'REMOTE_APP_DEIDENTIFY',
  description:
    "Remove identifying information before anything is sent; '--deidentify=names' only gives files neutral names",
  parse: async (input, _, { name }) => {
    const mode = Object.hasOwn(modes, input.toLowerCase()) ? modes[input.toLowerCase()] : undefined;
    if (mode === undefined) throw new FlagValueError(name, "'full' or 'names'", input);
    return mode;
  },
})();

/** The flags that control the de-identification of a submission. */
export const deidentifyFlags = {
  deidentify: deidentifyFlag,
  'no-deidentify': Flags.boolean({
    helpGroup: 'PRIVACY',
    description: 'Send files unchanged, even if the profile or the environment asks for --deidentify',
  }),
  'allow-identifying': Flags.string({
    helpGroup: 'PRIVACY',
    helpValue: 'KIND',
    multiple: true,
    multipleNonGreedy: true,
    description:
      'Send a kind of image that --deidentify would refuse, by the name in its message: burned-in or ' +
      'secondary-capture',
  }),
};

/** Completes `--deidentify` without a value to `--deidentify=full`, because oclif does not support optional values. */
export function withValue(words: readonly string[]): string[] {
  const end = words.indexOf('--');
  return words.map((word, at) =>
    word === '--deidentify' && (end < 0 || at < end) ? '--deidentify=full' : word,
  );
}

/** Whether the environment or the profile asks for de-identification; used by commands that cannot de-identify. */
export function wantsDeidentified(
  { REMOTE_APP_DEIDENTIFY: said = '' }: NodeJS.ProcessEnv,
  { deidentify }: Pick<Settings, 'deidentify'>,
): boolean {
  return said === '' ? deidentify !== undefined : modes[said.toLowerCase()] !== 'no';
}

interface Flagged {
  readonly deidentify?: Mode | 'no' | undefined;
  readonly 'no-deidentify'?: boolean;
  readonly 'allow-identifying'?: readonly string[] | undefined;
  readonly profile?: string | undefined;
}

/** The de-identification requested by flags, environment or profile, in this order of precedence. */
export function deidentifyChoice(
  flags: Flagged,
  { deidentify: ofProfile }: Pick<Settings, 'deidentify'>,
  typed: TypedFlags,
  configDir: string,
): DeidentifyChoice {
  const { deidentify: given, 'no-deidentify': refused = false } = flags;
  if (refused && typed.has('deidentify') && given !== 'no')
    throw new UsageError('--deidentify and --no-deidentify exclude each other; give one of them');
  const isRefused = refused || given === 'no';
  const mode = refused || given === 'no' ? null : (given ?? ofProfile ?? null);
  const profile = flags.profile || defaultProfile;
  return { mode, isRefused, allowed: flags['allow-identifying'] ?? [], configDir, profile };
}
