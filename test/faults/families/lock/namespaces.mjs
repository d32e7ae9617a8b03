import { spawnSync } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { file } from '../../../support/form.mjs';
import { job, steps, submit } from '../../support/api.mjs';
import { isUp, settled, startersOf } from './starters.mjs';

const namespace = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc', '--uts'];
/** Namespaces as a container has them, with its own host name. */
const launcherOf = (name) => [...namespace, 'sh', '-c', 'hostname "$0"; exec "$@"', name];

/** Two servers that do not see each other's processes, as two containers on one volume. */
export async function separateNamespaces(context) {
  if (spawnSync(namespace[0], [...namespace.slice(1), 'true']).status !== 0) {
    context.note('Namespaces are not allowed here: the lock was not tried between them');
    return;
  }
  const { random } = context;
  const [first] = startersOf(context, 1, { launcher: launcherOf(`one${random.word(4)}`) });
  const { dataDirectory } = first;
  const launcher = random.chance(0.5) ? launcherOf(`two${random.word(4)}`) : [];
  const [second] = startersOf(context, 1, { dataDirectory, launcher });
  context.count('starts in another namespace');
  await first.start();
  try {
    const options = steps({ lines: 600, pause: 0.1 });
    const id = await submit(first, 'witness', 'infer', { inputs: file('scan.nii'), options });
    second.spawn();
    const up = await settled(context, [first, second], 'the second in another PID namespace');
    context.check(isUp(first), 'The first server ended when a second was started in another namespace');
    if (up.length > 0) {
      const { status, error } = await job(up[0], id);
      context.check(
        status === 'running',
        `A start in another namespace made a running job ${status}: ${error}`,
      );
    }
    if (isUp(second)) return;
    await first.kill();
    await delay(random.integer(0, 500));
    const [third] = startersOf(context, 1, { dataDirectory, launcher });
    third.spawn();
    try {
      await settled(context, [third], 'the first was killed, in another namespace');
    } finally {
      await third.kill();
    }
  } finally {
    // unshare does not pass SIGTERM on; when it is killed, everything in the namespace ends.
    await second.kill();
    await first.kill();
  }
}
