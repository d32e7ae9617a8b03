import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';

function read(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}

/** What a job was doing when the server died, according to its directory. */
export function stateAtDeath(directory) {
  const has = (name) => existsSync(path.join(directory, name));
  const record = read(path.join(directory, 'job.json'));
  if (record === undefined) return 'uploading, or being removed';
  if (['done', 'error', 'killed'].includes(record.state)) return 'in grace';
  if (record.killRequested) return 'being killed';
  if (record.state !== 'running') return record.state;
  if (has('exit.json')) return 'ended or packing';
  return has('runner.json') ? 'running' : 'starting';
}
