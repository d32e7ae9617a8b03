import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';

/**
 * Replaces a JSON file so that a reader, or a crash, sees the old text or the new one and never half of it.
 * Synchronous: a state change is on disk before anything acts upon it.
 */
export function writeJsonFile(path: string, value: unknown): void {
  const partial = `${path}.${process.pid}.partial`;
  try {
    writeFileSync(partial, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 });
    renameSync(partial, path);
  } catch (cause) {
    rmSync(partial, { force: true });
    throw cause;
  }
}

/** Reads a JSON file; undefined where there is none. */
export function readJsonFile(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return undefined;
    throw cause;
  }
}
