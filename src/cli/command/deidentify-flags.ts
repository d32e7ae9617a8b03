import * as Flags from '@oclif/core/flags';
import { defaultProfile } from '../../client/connection/index.js';
import { UsageError } from '../../client/errors.js';
import type { DeidentifyChoice, Mode } from '../../client/outgoing.js';
import type { Settings, TypedFlags } from './settings.js';
import { FlagValueError } from './usage-errors.js';

/** What the flag and the variable take, and what they mean. */
const modes: Readonly<Record<string, Mode | 'no'>> = {
  ...{ full: 'full', names: 'names', no: 'no' },
  ...{ 1: 'full', true: 'full', yes: 'full', 0: 'no', false: 'no' },
};

/** Whether files are de-identified; without a value everything is (`withValue`). */
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

/** The flags that say how a submission is de-identified. */
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

/** The words of a command line, in which a flag without a value has its usual one: oclif knows no such flags. */
export function withValue(words: readonly string[]): string[] {
  const end = words.indexOf('--');
  return words.map((word, at) =>
    word === '--deidentify' && (end < 0 || at < end) ? '--deidentify=full' : word,
  );
}

/** Whether the environment or the profile asks for de-identification. For commands that cannot de-identify. */
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

/** What flags, environment and profile say of it, in this order. */
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
