import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { file } from '../../../support/form.mjs';
import { isRunning } from '../../../support/processes.mjs';
import { ended, job, steps, submit } from '../../support/api.mjs';
import { until } from '../../support/until.mjs';
import { startsWithin } from './checks.mjs';
import { damages } from './damage.mjs';
import { inventory, lost } from './kept.mjs';

const lines = 2;

async function begin(context, world, server, gate) {
  const content = `runs ${context.random.word(30)}`;
  const options = steps({ witness: world.witness, nonce: 'any', lines, gate });
  const id = await submit(server, 'witness', 'infer', {
    inputs: file('scan.nii', content),
    options,
    cpu: '1',
  });
  await until('its command runs', () => world.begins(id) === 1);
  await until('it is seen to run', async () => (await job(server, id)).status === 'running');
  return { id, content, noise: 0 };
}

/** A record of a job is damaged while its runner and its command run, and no server does. */
export async function underRunners(context, world) {
  const { random } = context;
  await world.clear();
  const gate = path.join(world.user.home, `runs-${context.serial()}-`);
  const server = await world.server().start();
  const [damaged, whole] = [
    await begin(context, world, server, gate),
    await begin(context, world, server, gate),
  ];
  await server.kill();
  const record = random.pick(['job.json', 'runner.json', 'run.json']);
  const kind = random.pick(Object.keys(damages));
  const what = `a ${record} ${kind} of job ${damaged.id}, which runs`;
  const directory = server.jobDirectory(damaged.id);
  const kept = inventory(directory, (name) => name.startsWith('Input/'));
  damages[kind](
    path.join(directory, record),
    random,
    path.join(world.user.home, `outside-${context.serial()}`),
  );
  context.count('a record of a running job');
  try {
    if (!(await startsWithin(context, server, what))) return;
    for (let line = 1; line <= lines; line += 1) writeFileSync(`${gate}${line}`, '');
    const { status, error } = await ended(server, whole.id, 30_000);
    context.check(status === 'done', `With ${what} its neighbour ended as ${status}: ${error}`);
    if (existsSync(path.join(server.jobDirectory(whole.id), 'Output', 'answer')) === false)
      context.violation(`With ${what} its neighbour has no output`);
    await until('no command runs', () => server.processes().length === 0, 20_000);
    for (const { id } of [damaged, whole]) {
      const begins = world.begins(id);
      context.check(begins === 1, `With ${what} the command of job ${id} began ${begins} times`);
    }
  } catch (cause) {
    context.violation(`With ${what}: ${cause.message}`);
  } finally {
    for (let line = 1; line <= lines; line += 1) writeFileSync(`${gate}${line}`, '');
    await server.kill();
    await until('the commands end', () => server.processes().length === 0, 10_000).catch(() => {
      for (const { pid } of server.processes()) if (isRunning(pid)) process.kill(pid, 'SIGKILL');
    });
    const gone = lost(world.data, kept);
    context.check(gone.length === 0, `A start with ${what} deleted ${gone.join(', ')}`);
  }
}
