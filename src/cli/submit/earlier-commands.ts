import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { excerpt, quotePath, shellWord } from '../../contract/index.js';
import { faultWithoutPath } from '../../files/index.js';
import { keptCommand, type SentCommand } from '../jobs/index.js';
import type { Word } from './path-order.js';

/**
 * A command line that can be repeated; settings from the environment or a profile are included.
 * @param configured flags whose values may have come from the environment or a profile
 * @param booleans names of the flags that take no value
 */
export function commandWords(
  words: readonly Word[],
  configured: Readonly<Record<string, string | undefined>>,
  booleans: ReadonlySet<string>,
): SentCommand['words'] {
  const given = words
    .filter(({ flag }) => flag !== 'token' && flag !== 'json' && !(flag !== undefined && flag in configured))
    .map(({ flag, input }) => {
      // A path that begins with a dash would be read as a flag.
      if (flag === undefined) return { flag: null, text: input.startsWith('-') ? `./${input}` : input };
      if (!booleans.has(flag)) return { flag, text: `--${flag}=${input}` };
      return { flag, text: input.startsWith('--no-') ? `--no-${flag}` : `--${flag}` };
    });
  const known = Object.entries(configured).flatMap(([flag, value]) =>
    value === undefined ? [] : [{ flag, text: `--${flag}=${value}` }],
  );
  return [...known, ...given];
}

/** For flags of `retry`, the other flags of the original command that they replace as well. */
const replaces: Readonly<Record<string, readonly string[]>> = {
  detach: ['output', 'force', 'wait'],
  output: ['detach'],
  force: ['detach'],
  server: ['profile'],
  profile: ['server'],
};

/** The flags that were typed for `retry`. */
function typedWords(words: readonly Word[], booleans: ReadonlySet<string>, output: string | undefined) {
  return words.flatMap(({ flag, input }) => {
    if (flag === undefined || flag === 'json') return [];
    if (booleans.has(flag)) return [{ flag, text: `--${flag}` }];
    // Made absolute because the command runs in another directory.
    const value = flag === 'output' && output !== '-' ? path.resolve(input) : input;
    return [{ flag, text: `--${flag}=${value}` }];
  });
}

/**
 * Changes to the directory in which a job was submitted, and returns the command that was typed there.
 * @param typed the command line of `retry`, whose flags replace those of the job's command
 * @throws UsageError if this machine does not know the job's command, or the directory is gone
 */
export function commandAgain(
  configDir: string,
  jobId: string,
  typed: readonly Word[],
  booleans: ReadonlySet<string>,
  output: string | undefined,
): { readonly command: string; readonly argv: string[]; readonly shown: string } {
  const { command, directory, words } = keptCommand(configDir, jobId);
  const own = typedWords(typed, booleans, output);
  const replaced = new Set(own.flatMap(({ flag }) => [flag, ...(replaces[flag] ?? [])]));
  const kept = words.filter(({ flag }) => flag === null || !replaced.has(flag));
  try {
    process.chdir(directory);
  } catch (cause) {
    throw new UsageError(
      `Job ${jobId} was submitted in ${quotePath(directory)}, which cannot be entered: ${faultWithoutPath(cause)}`,
    );
  }
  const argv = [...own, ...kept].map(({ text }) => text);
  const shown = [...own, ...kept].filter(({ flag }) => flag !== 'token').map(({ text }) => shellWord(text));
  return { command, argv, shown: excerpt([command, ...shown].join(' '), 500) };
}
