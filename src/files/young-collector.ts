import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** V8's garbage collector for young objects. */
export function youngCollector(): () => void {
  // Inside the process there is no other access to it. The flag is removed again, because V8's code cache is valid only for
  // the same flags.
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: { type: 'minor' }) => void;
  setFlagsFromString('--no-expose-gc');
  return () => collect({ type: 'minor' });
}
