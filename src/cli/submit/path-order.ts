import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { type Field, flagName } from '../../contract/fields.js';
import { oneLine, quotePath } from '../../contract/quote.js';
import { shellWord } from '../../contract/shell-word.js';

/** A word of the command line as oclif has read it: a flag's value, or a path without a flag. */
export interface Word {
  readonly type: 'arg' | 'flag';
  readonly input: string;
  readonly flag?: string;
}

/** A flag that names files, with its value. */
interface Group {
  readonly field: Field;
  readonly value: string;
}

/** Most paths for which an error shows the whole spelling. */
const mostShown = 3;

const flagOf = ({ char, ...field }: Field): string => (char ? `-${char}` : `--${flagName(field)}`);

/** A word as a person types it in a shell. */
const typed = (word: string): string => shellWord(oneLine(word));

/** A pattern that a shell may have expanded to these paths. */
function patternOf(paths: readonly string[]): string {
  const directories = new Set(paths.map((each) => path.dirname(each)));
  const endings = new Set(paths.map((each) => /(\.nii)?\.[^.]+$/i.exec(path.basename(each))?.[0] ?? ''));
  const name = `*${endings.size === 1 ? [...endings].join() : ''}`;
  return oneLine(directories.size === 1 ? path.join(...directories, name) : name);
}

/** The spellings for one group of all these paths, and for a group of each. */
function spellings(flag: string, paths: readonly string[]): string {
  const quoted = `quote the pattern (${flag} '${patternOf(paths)}')`;
  if (paths.length > mostShown || paths.some((each) => each.includes(','))) {
    return `for one group ${quoted}; for a group of each write ${flag} before each`;
  }
  const each = paths.map((one) => `${flag} ${typed(one)}`).join(' ');
  return `for one group write ${flag} ${typed(paths.join(','))}, or ${quoted}; for a group of each write ${each}`;
}

/** @param strays the paths that follow the flag's value; the shell has made them from a pattern, or a person typed them */
function refuseNext({ field, value }: Group, strays: readonly [string, ...string[]]): UsageError {
  const flag = flagOf(field);
  const more = strays.length > 1 ? ` and ${strays.length - 1} more follow` : ' follows';
  const inputs = field.role === 'paths' ? '' : `; an input is named before ${flag}`;
  return new UsageError(
    `${flag} takes one path, and ${quotePath(strays[0])}${more} '${flag} ${oneLine(value)}': ` +
      spellings(flag, [value, ...strays]) +
      inputs,
  );
}

/**
 * Refuses a path without a flag whose group is not clear from where it stands. A shell expands `-i scans/*.nii.gz` to
 * `-i a.nii.gz b.nii.gz c.nii.gz`, where `-i` takes the first alone: the others would become another group, before it. So
 * no such path follows the value of a flag that names files. Behind `-i` none may stand at all, since it would belong to
 * the first group. Paths before these flags are clear.
 * @throws UsageError with the spellings of what may have been meant
 */
export function checkPathOrder(fields: readonly Field[], words: readonly Word[]): void {
  let before: Group | null = null;
  let inputs: Group | null = null;
  for (const [index, { type, input, flag }] of words.entries()) {
    if (type === 'flag') {
      const field = fields.find((each) => each.kind === 'files' && flagName(each) === flag);
      before = field ? { field, value: input } : null;
      if (field?.role === 'paths') inputs = before;
    } else if (before) {
      const end = words.findIndex((word, at) => at > index && word.type === 'flag');
      const rest = words.slice(index + 1, end < 0 ? words.length : end).map((word) => word.input);
      throw refuseNext(before, [input, ...rest]);
    } else if (inputs) {
      const own = flagOf(inputs.field);
      throw new UsageError(
        `${quotePath(input)} stands behind ${own}: write paths without a flag, which are the first group, before the ` +
          `first ${own}, or ${own} ${typed(input)} for another group`,
      );
    }
  }
}
