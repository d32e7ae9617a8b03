import { userInfo } from 'node:os';
import path from 'node:path';

/** A directory that is not there: nothing is read from it, and nothing is written to it without a word. */
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
 * Sets HOME where it is missing, empty or relative. oclif would read the profiles in `/tmp` then, where every user of the machine may
 * put some, or fail; and files would be looked for in the working directory.
 */
export function nameHome(): void {
  const { HOME = '' } = process.env;
  if (process.platform !== 'win32' && !path.isAbsolute(HOME)) process.env.HOME = homeOfUser();
}
