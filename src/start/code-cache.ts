import { readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import Module, { createRequire } from 'node:module';
import { homedir, platform } from 'node:os';
import path from 'node:path';
import { Script } from 'node:vm';
import { makeDirectory } from '../files/make-directory.js';

/** The cache directory of this user. */
function userCache(): string {
  const { XDG_CACHE_HOME, LOCALAPPDATA } = process.env;
  if (XDG_CACHE_HOME) return XDG_CACHE_HOME;
  if (platform() === 'win32' && LOCALAPPDATA) return LOCALAPPDATA;
  return path.join(homedir(), platform() === 'darwin' ? 'Library/Caches' : '.cache');
}

/**
 * The directory for the compiled code, which may not exist yet. Its files are executed, so it must belong to this user:
 * undefined if the home directory is somebody else's (`sudo -E`).
 */
function codeDirectory(name: string): string | undefined {
  try {
    const directory = path.join(userCache(), 'remote-app', name);
    const owner = statSync(directory, { throwIfNoEntry: false })?.uid;
    return process.getuid && owner !== undefined && owner !== process.getuid() ? undefined : directory;
  } catch {
    return undefined;
  }
}

function readIfThere(file: string): Buffer | undefined {
  try {
    return readFileSync(file);
  } catch {
    return undefined;
  }
}

/**
 * Milliseconds after the start when the code of a command that still runs is saved: that of a server that has run for weeks would be
 * all that it ever used, and to load it would make the next start take half as long again.
 */
const started = 2000;

/** Calls a function at the end of a command that has succeeded, and once while it runs, if it runs for long. */
function onceStarted(keep: () => void): void {
  // A word that is no command fails, and leaves nothing.
  process.once('exit', (code) => {
    if (code === 0) keep();
  });
  setTimeout(keep, started).unref();
}

/** The code of some files of the bundle, as one Node version compiled them for one command. */
class CodeStore {
  readonly #suffix = `-${process.version}-${process.arch}`;
  readonly #missing = new Map<string, Script>();

  constructor(
    private readonly bundle: string,
    private readonly directory: string,
  ) {
    // When the functions that the command uses have been compiled.
    onceStarted(() => this.#keep());
  }

  /** Compiles a file, with the cached code of an earlier run if there is one that fits. */
  compile(file: string): Script {
    // The name of a file in the bundle holds a digest of its content.
    const stored = path.join(this.directory, path.basename(file) + this.#suffix);
    const cachedData = readIfThere(stored);
    // The bundle is ASCII, which is read at once as this, and as UTF-8 in pieces of 8 KiB.
    const text = readFileSync(file, 'latin1');
    const source = `(function (exports, require, module, __filename, __dirname) {${text}\n})`;
    const script = new Script(source, { filename: file, ...(cachedData ? { cachedData } : {}) });
    if (!cachedData || script.cachedDataRejected) this.#missing.set(stored, script);
    return script;
  }

  /** Ignores errors: without the cache the next start only takes longer. */
  #keep(): void {
    if (this.#missing.size === 0) return;
    try {
      makeDirectory(this.directory, 0o700);
      for (const [stored, script] of this.#missing) {
        const partial = `${stored}.${process.pid}`;
        writeFileSync(partial, script.createCachedData(), { mode: 0o600 });
        renameSync(partial, stored);
      }
      this.#missing.clear();
      const files = readdirSync(this.bundle, { recursive: true, encoding: 'utf8' });
      const current = new Set(files.map((file) => path.basename(file) + this.#suffix));
      for (const name of readdirSync(this.directory)) {
        if (!current.has(name)) rmSync(path.join(this.directory, name), { force: true });
      }
    } catch {}
  }
}

/**
 * From here on, saves V8's compiled code of the bundle's files in the user's cache directory, for the next run of the same
 * command: compiling takes longer than most commands do.
 * @param bundle directory of the bundle, with a separator at its end
 */
export function keepCode(bundle: string, command: string): void {
  // Node does so itself from 22.8 on; the types are those of an older one.
  const { enableCompileCache, flushCompileCache } = Module as {
    enableCompileCache?: (directory: string) => unknown;
    flushCompileCache?: () => void;
  };
  const directory = codeDirectory(enableCompileCache ? 'compile-cache' : `code/${command}`);
  if (directory === undefined) return;
  if (enableCompileCache) {
    try {
      makeDirectory(directory, 0o700);
      enableCompileCache(directory);
      if (flushCompileCache) setTimeout(flushCompileCache, started).unref();
    } catch {}
    return;
  }
  const store = new CodeStore(bundle, directory);
  const { extensions } = createRequire(bundle);
  const load = extensions['.js'];
  extensions['.js'] = (module, file) => {
    if (!file.startsWith(bundle)) return load?.(module, file);
    const run = store.compile(file).runInThisContext();
    run(module.exports, createRequire(file), module, file, path.dirname(file));
  };
}
