import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { apps, product } from './server.mjs';

/** `nobody`: a user that owns nothing on any system. */
const user = 65_534;
const words = ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups'];

function canRun() {
  const read = `for f in "$@"; do test -r "$f" || exit 1; done; exec "$0" --version`;
  const files = [path.join(product, 'bin', 'run.js'), path.join(apps.witness, 'main.sh')];
  try {
    execFileSync(words[0], [...words.slice(1), 'sh', '-c', read, process.execPath, ...files], {
      stdio: 'ignore',
    });
    return true;
  } catch {
    return false;
  }
}

/**
 * A directory for a server that is not root, and the words that start that server. Root ignores permissions, so
 * what a server does with a file that it may not read is only seen with another user.
 * @returns null where this harness is root and cannot become another user
 */
export function unprivileged(context) {
  const home = path.join(context.scratch, `home-${context.serial()}`);
  mkdirSync(home);
  if (process.getuid() !== 0) return { home, launcher: [], environment: { HOME: home } };
  if (!canRun()) return null;
  chownSync(home, user, user);
  for (const directory of [context.scratch, path.dirname(context.scratch)]) chmodSync(directory, 0o711);
  return { home, launcher: words, environment: { HOME: home } };
}

/** Gives a file that the harness made to the user of `unprivileged`. */
export function giveAway(...files) {
  if (process.getuid() === 0) for (const file of files) chownSync(file, user, user);
}
