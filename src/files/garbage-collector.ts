import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

export interface GarbageCollector {
  /** Frees young objects. */
  minor(): void;
  /** Frees all objects that nothing refers to, which takes ten times as long. */
  major(): void;
}

/** V8's garbage collector. It is done when a call returns. */
export function garbageCollector(): GarbageCollector {
  // Inside the process there is no other access to it. The flag is removed again, because V8's code cache is valid only for
  // the same flags.
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options?: { type: 'minor' }) => void;
  setFlagsFromString('--no-expose-gc');
  return { minor: () => collect({ type: 'minor' }), major: () => collect() };
}
