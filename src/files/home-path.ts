import { homedir } from 'node:os';
import path from 'node:path';

/** A path in which `~` or `~/` at its start stands for the user's home directory, as in a shell. */
export function expandHome(given: string, home = homedir()): string {
  return /^~(?=$|[/\\])/.test(given) ? path.join(home, given.slice(1)) : given;
}
