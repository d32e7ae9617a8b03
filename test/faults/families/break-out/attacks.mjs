import { existsSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { argumentsOf, runningProcesses } from '../../../support/processes.mjs';
import { unzip } from '../../../support/unzip.mjs';
import { request } from '../../support/api.mjs';
import { until } from '../../support/until.mjs';
import { limits } from './attacked-server.mjs';

const sleepers = (marker) =>
  runningProcesses().filter((pid) => argumentsOf(pid).join(' ') === `sleep ${marker}`);

/** Ends what an attack has left behind. @returns how many there were */
function endMarked(marker) {
  const left = sleepers(marker);
  for (const pid of left) process.kill(pid, 'SIGKILL');
  return left.length;
}

/** Seconds that no other process of this machine sleeps. */
const markerOf = (random) => `8${random.integer(100_000, 999_999)}`;

/** Reads; succeeds if the log has a secret. */
const reading = (way) => async (attacked, random) => {
  const files = random.shuffle([attacked.private, `/proc/${attacked.server.pid}/environ`]);
  const { said } = await attacked.visit({ deed: 'read', way, files });
  return [attacked.secret, attacked.server.token].some((secret) => said.includes(secret));
};

const taking = (isHard) => async (attacked) => {
  const file = path.join(attacked.server.jobDirectory(attacked.victim), 'Output', 'answer');
  const { id } = await attacked.visit({ deed: 'take', isHard, file });
  const { status, bytes } = await request(attacked.server, `/jobs/${id}/result`);
  const files = status === 200 ? [...unzip(bytes).values()] : [];
  return files.some((content) => content.includes(attacked.secret));
};

const hiding = (stays) => async (attacked, random) => {
  const marker = markerOf(random);
  // What leaves nothing to find a process by, and perhaps more. From the inside out: a shell that stays must have neither
  // the job's pipe nor its mark.
  const inner = ['session', 'fork', ...['signals', 'place'].filter(() => random.chance(0.5))];
  const outer = ['environment', 'pipes'];
  const plan = { deed: 'hide', marker, stays, tricks: [...random.shuffle(inner), ...random.shuffle(outer)] };
  const id = await attacked.send(plan);
  const log = path.join(attacked.server.jobDirectory(id), 'log');
  await until('the process is hidden', () => readFileSync(log, 'utf8').includes('hidden\n'));
  if (stays) await attacked.kill(id);
  await attacked.end(id);
  return endMarked(marker) > 0;
};

const connecting = (choose) => async (attacked) => {
  const before = attacked.connections;
  const { said } = await attacked.visit({ deed: 'connect', targets: [choose(attacked)] });
  return attacked.connections > before || said.includes('answered');
};

/**
 * Every way to break out: how it is tried, which resolves with whether it has succeeded, and whether it does without a
 * sandbox. docs/sandbox.md has the same table.
 */
export const attacks = {
  'read the files of another job by their path': { open: true, run: reading('by their path') },
  'read them through the roots of other processes': {
    open: true,
    run: reading('through the roots of other processes'),
  },
  "read the user's other files, or the token in the server's environment": {
    open: true,
    run: reading('by a path given to it'),
  },
  'put a symbolic link to a file of another job into the result': { open: false, run: taking(false) },
  'put a hard link to a file of another job into the result': { open: true, run: taking(true) },
  'write the records and the log': {
    open: true,
    run: async (attacked, random) => {
      const word = random.word(12);
      const content = `${JSON.stringify({ exitCode: 0, signal: null, error: null, word })}\n`;
      const { id, view, said } = await attacked.visit({ deed: 'forge', content });
      const records = ['exit.json', 'runner.json', 'job.json', 'run.json', 'log'].map((name) =>
        path.join(attacked.server.jobDirectory(id), name),
      );
      const isForged = records.some((each) => existsSync(each) && readFileSync(each, 'utf8').includes(word));
      return isForged || said.includes(word) || view.error !== 'Subprocess failed (exit code 9)';
    },
  },
  "print lines that read as the service's own": {
    open: false,
    run: async (attacked, random) => {
      const word = random.word(12);
      const { log } = await attacked.visit({ deed: 'pretend', content: word });
      const told = log.filter((line) => line.includes(word));
      return told.length === 0 || told.some((line) => !line.startsWith(' '));
    },
  },
  'leave a process behind at its end': { open: true, run: hiding(false) },
  'leave a process behind when it is killed': { open: true, run: hiding(true) },
  'reach a service of the machine': { open: true, run: connecting(({ targets }) => targets[0]) },
  'reach a socket with a path': { open: true, run: connecting(({ targets }) => targets[1]) },
  'reach a socket without a path': { open: true, run: connecting(({ targets }) => targets[2]) },
  'reach the job service itself': {
    open: true,
    run: connecting(({ server }) => ({ host: '127.0.0.1', port: Number(new URL(server.url).port) })),
  },
  'use the device of another GPU': {
    open: true,
    needsGpus: true,
    run: async (attacked, random) => {
      const gpu = random.integer(0, 1);
      const { said } = await attacked.visit({ deed: 'gpus' }, { gpu: String(gpu) });
      if (!said.includes(attacked.gpuSecrets[gpu]))
        throw new Error(`It does not see its own GPU ${gpu}: ${said}`);
      return said.includes(attacked.gpuSecrets[1 - gpu]);
    },
  },
  'use the device of a GPU as a job on the CPU': {
    open: true,
    needsGpus: true,
    run: async (attacked) => {
      const { said } = await attacked.visit({ deed: 'gpus' });
      return attacked.gpuSecrets.some((secret) => said.includes(secret));
    },
  },
  'leave files in /tmp and in shared memory': {
    open: true,
    run: async (attacked, random) => {
      const name = `intruder-${random.word(12)}`;
      const files = ['/tmp', '/var/tmp', '/dev/shm'].map((each) => path.join(each, name));
      await attacked.visit({ deed: 'litter', files });
      const left = files.filter(existsSync);
      for (const each of left) rmSync(each);
      return left.length > 0;
    },
  },
  'leave a key of the kernel for another job': {
    open: true,
    run: async (attacked, random) => {
      const secret = random.word(20);
      const left = await attacked.visit({ deed: 'key', secret });
      const [, id] = /^key (\d+)$/m.exec(left.said) ?? [];
      return id !== undefined && (await attacked.visit({ deed: 'key', id })).said.includes(secret);
    },
  },
  'fork without end': {
    open: true,
    run: async (attacked, random) => {
      const marker = markerOf(random);
      const id = await attacked.send({ deed: 'fork', marker, count: 2 * limits.processes });
      let most = 0;
      const ending = /^It was stopped for using more than the \d+ processes and threads/;
      await until('the herd has ended', async () => {
        most = Math.max(most, sleepers(marker).length);
        return attacked.hasEnded(id);
      });
      const { error } = await attacked.end(id);
      // For root the kernel does not count: the runner ends such a job when it next looks.
      const isHeld = most <= limits.processes || ending.test(error ?? '');
      return endMarked(marker) > 0 || !isHeld;
    },
  },
  'use more memory than allowed, in one process': {
    open: true,
    run: async (attacked) => {
      const { said } = await attacked.visit({ deed: 'memory', children: 1, size: 3 * limits.mebibytes });
      return said.includes('held');
    },
  },
  'use more memory than allowed, in several': {
    open: true,
    run: async (attacked) => {
      const { said } = await attacked.visit({ deed: 'memory', children: 4, size: limits.mebibytes / 2 });
      return said.includes('held');
    },
  },
  'undo what hides other files, by mounts and namespaces': {
    open: true,
    run: async (attacked) => (await attacked.visit({ deed: 'mount' })).said.includes(attacked.victim),
  },
  'end the server': {
    open: true,
    run: async (attacked) => {
      attacked.server.mayEnd = true;
      try {
        await attacked.visit({ deed: 'kill', isWild: attacked.sandbox !== 'off' });
      } catch (cause) {
        // Its connections are seen to break before its end.
        await until(`the server has ended, or else: ${cause.message}`, () => !attacked.server.isAlive, 5000);
      }
      return !attacked.server.isAlive;
    },
  },
};
