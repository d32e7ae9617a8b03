import { Notes } from '../files/notes.js';
import { walkFiles } from './walk-files.js';

/**
 * Counts the files that `packTo` would pack, up to `most`.
 * @param source a directory, not a link to one
 * @throws the system's error if `source` is not a directory, or the reason of the signal
 */
export async function countFiles(source: string, most: number, signal?: AbortSignal): Promise<number> {
  const all = () => true;
  const notes = new Notes();
  let count = 0;
  for await (const { file } of walkFiles(source, {
    include: all,
    includeTarget: all,
    openUp: true,
    notes,
    signal,
  })) {
    signal?.throwIfAborted();
    if (file !== null) count += 1;
    if (count >= most) break;
  }
  return count;
}
