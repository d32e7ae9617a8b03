import { randomBytes } from 'node:crypto';
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { submit } from './http.mjs';
import { Server } from './server.mjs';

/** A data directory of finished jobs: copies of one that a server ran, each with an id of its own. */
export async function finishedJobs(workshop, app, count) {
  const server = await Server.start(workshop, { apps: [app], flags: ['--grace', '86400'] });
  const { job_id } = await submit(server, path.basename(app));
  await server.ended(job_id);
  await server.stop();
  const model = server.jobDirectory(job_id);
  const record = await readFile(path.join(model, 'job.json'), 'utf8');
  const dataDirectory = await workshop.directory('data');
  await mkdir(path.join(dataDirectory, 'jobs'));
  for (let index = 0; index < count; index += 1) {
    const id = randomBytes(6).toString('hex');
    const directory = path.join(dataDirectory, 'jobs', id);
    await cp(model, directory, { recursive: true });
    await writeFile(path.join(directory, 'job.json'), record.replaceAll(job_id, id));
  }
  return dataDirectory;
}
