import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/**
 * While there is no server: as if the time was over until which every job that has ended was to be kept. The next server
 * then keeps each for its own grace, whatever the grace was under which the job was accepted.
 */
export function letTimePass(server) {
  for (const id of server.jobDirectories()) {
    const file = path.join(server.jobDirectory(id), 'job.json');
    const record = JSON.parse(readFileSync(file, 'utf8'));
    if (record.expiresAt === null) continue;
    writeFileSync(
      file,
      JSON.stringify({ ...record, expiresAt: new Date().toISOString(), expiresAtBootTime: null }),
    );
  }
}
