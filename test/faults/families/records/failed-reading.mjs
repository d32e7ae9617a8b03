import path from 'node:path';
import { listJobs } from '../../support/api.mjs';
import { Preload } from '../../support/preload.mjs';
import { inventory, lost } from './kept.mjs';

/** A valid record that cannot be opened this time, because of the disk or a lack of descriptors. */
export async function failedReading(context, world) {
  const preload = Preload.build(context);
  if (preload === null) {
    context.note('LEFT OUT: readings that fail, because gcc is not here');
    return;
  }
  const { random } = context;
  const error = random.pick(['EIO', 'EMFILE', 'ENFILE', 'ENOMEM', 'EACCES']);
  const count = random.pick([1, 1, 2, -1]);
  const what = `${error} at ${count < 0 ? 'every' : count} opening of a job.json`;
  await world.reset();
  const kept = world.jobs.flatMap(({ id }) =>
    inventory(path.join(world.data, 'jobs', id), (file) => /^(Input|Output|result\.zip)/.test(file)),
  );
  context.count('a record that cannot be opened');
  const server = world.server(preload.environment);
  server.mayEnd = true;
  try {
    preload.failOpening('job.json', error, count);
    server.spawn();
    const isListening = await server.listening(15_000).then(
      () => true,
      () => false,
    );
    if (!isListening) {
      const isSaid = server.hasEnded && server.stderr.includes(error);
      context.check(
        isSaid,
        `After ${what} the server neither listens nor ends with a reason: ${server.stderr}`,
      );
      context.check(count < 0, `After ${what} the server does not start: ${server.stderr.slice(-600)}`);
    } else if (count > 0) {
      const there = (await listJobs(server)).length;
      const isEnough = there >= world.jobs.length - count;
      context.check(isEnough, `After ${what} ${there} of ${world.jobs.length} jobs are there`);
    }
    await server.kill();
    preload.failNothing();
  } finally {
    await server.kill();
    const gone = lost(world.data, kept);
    context.check(gone.length === 0, `A start with ${what} deleted ${gone.slice(0, 4).join(', ')}`);
    await world.clear();
  }
}
