/** The entry point of the command line: completes the environment, then starts oclif. */
import { chmodSync, lstatSync, mkdirSync } from 'node:fs';
import module from 'node:module';
import { homedir, userInfo } from 'node:os';
import path from 'node:path';

/** A directory that does not exist: reading it finds nothing, and writing to it fails. */
const noHome = '/nonexistent';

function homeOfUser(): string {
  try {
    const { homedir } = userInfo();
    return path.isAbsolute(homedir) ? homedir : noHome;
  } catch {
    // The user has no entry in passwd, as in many containers.
    return noHome;
  }
}

/**
 * Sets HOME if it is missing, empty or relative. Otherwise, oclif would fail, or read the profiles from `/tmp`, where every user
 * of the machine could plant them.
 */
function setHome(): void {
  const { HOME = '' } = process.env;
  if (process.platform !== 'win32' && !path.isAbsolute(HOME)) process.env.HOME = homeOfUser();
}

/** Makes Node 22 and newer cache compiled code in a directory that only this user can write, because code is run from there. */
function keepCompiledCode(): void {
  // The types are those of Node 20, which has no such cache.
  const { enableCompileCache } = module as { enableCompileCache?: (directory: string) => unknown };
  if (!enableCompileCache) return;
  const directory = path.join(process.env.XDG_CACHE_HOME || path.join(homedir(), '.cache'), 'remote-app');
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    const stats = lstatSync(directory);
    if (!stats.isDirectory() || stats.uid !== (process.getuid?.() ?? stats.uid)) return;
    chmodSync(directory, 0o700);
    enableCompileCache(directory);
  } catch {
    // Without a directory, nothing is cached.
  }
}

setHome();
keepCompiledCode();
const [{ main }, { CommandIo, leaveClosedTerminals }] = await Promise.all([
  import('./main.js'),
  import('../cli/terminal/index.js'),
]);
const io = new CommandIo(process);
process.once('exit', () => {
  process.exitCode = Math.max(Number(process.exitCode ?? 0), io.exitCode);
  leaveClosedTerminals();
});
await main(import.meta.dirname, process.argv.slice(2), io);
