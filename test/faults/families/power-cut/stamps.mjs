import { createHash } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const seenFile = (output) => path.join(output, '.remote-app', 'seen.json');

/** What a command noted of the cases, for the next one: the stamp of the inputs, their hash, the stamp of the outputs. */
export const seenIn = (output) => JSON.parse(readFileSync(seenFile(output), 'utf8'));

/** The stamp of outputs as the client computes it; null if one is missing, or has another size. */
export function stampOf(directory, outputs) {
  const hash = createHash('sha256');
  for (const { name, size: recorded } of outputs) {
    const stats = statSync(path.join(directory, name), { throwIfNoEntry: false });
    if (stats?.size !== recorded) return null;
    const { size, mtimeMs, ctimeMs, ino } = stats;
    hash.update(`${path.basename(name)}\0${size} ${mtimeMs} ${ctimeMs} ${ino}\n`);
  }
  return hash.digest('hex');
}

/**
 * Gives outputs the stamps that they had before a power cut: a file system may keep the times and the inode of a file whose
 * content is lost.
 * @param stamps of the outputs before it, by the case and its job
 */
export function keepStamps(study, output, stamps) {
  let seen;
  try {
    seen = seenIn(output);
  } catch {
    // It is lost, or damaged.
    return;
  }
  for (const [name, row] of Object.entries(seen)) {
    const record = study.recordOf(name, output);
    const isOf = record !== null && row[2] === stamps.get(`${name} ${record.job_id}`);
    const stamp = isOf ? stampOf(path.join(output, name), record.outputs) : null;
    if (stamp !== null) row[2] = stamp;
  }
  writeFileSync(seenFile(output), JSON.stringify(seen));
}
