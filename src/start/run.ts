/** The entry point of the command line: completes the environment, then starts oclif. */
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
 * Sets HOME where it is missing, empty or relative. oclif would otherwise read the profiles from `/tmp`, where every user
 * of the machine could plant them, or fail.
 */
function setHome(): void {
  const { HOME = '' } = process.env;
  if (process.platform !== 'win32' && !path.isAbsolute(HOME)) process.env.HOME = homeOfUser();
}

/** Makes Node 22 and newer cache compiled code where only this user can write, because code is run from there. */
function keepCompiledCode(): void {
  // The types are those of Node 20, which has no such cache.
  const { enableCompileCache } = module as { enableCompileCache?: (directory: string) => unknown };
  const cache = process.env.XDG_CACHE_HOME || path.join(homedir(), '.cache');
  enableCompileCache?.(path.join(cache, 'remote-app'));
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
