import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';

/** A path in which `~` or `~/` at its start stands for the user's home directory, as in a shell. */
export function expandHome(given: string, home = homedir()): string {
  return /^~(?=$|[/\\])/.test(given) ? path.join(home, given.slice(1)) : given;
}

/** Whether a path begins with the home directory of another user as a shell spells it, `~ana/`, and is no file of that name. */
export const isOfAnotherHome = (given: string): boolean => {
  const [, first] = /^(~[A-Za-z_][\w.-]*)\//.exec(given) ?? [];
  return first !== undefined && !existsSync(first);
};
