import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { isRunning } from '../../../support/processes.mjs';

const signal = (pids, name) => {
  for (const pid of pids) if (isRunning(pid)) process.kill(pid, name);
};

/** Removes as `rm -r` does, again if a file was made meanwhile. */
function remove({ directory }) {
  for (let tries = 0; existsSync(directory) && tries < 100; tries += 1) {
    spawnSync('rm', ['-rf', directory], { stdio: 'ignore' });
  }
}

const removeOne =
  (name) =>
  ({ directory }) =>
    rmSync(path.join(directory, name), { recursive: true, force: true });

/** Attacks on a running job; each gets its directory, its runner's pid and those of its command. */
export const attacks = {
  'its directory is removed': remove,
  'its runner is stopped': ({ runner }) => signal([runner], 'SIGSTOP'),
  'its runner and its command are stopped': ({ runner, command }) => signal([runner, ...command], 'SIGSTOP'),
  'its command is stopped': ({ command }) => signal(command, 'SIGSTOP'),
  'its runner was killed': ({ runner }) => signal([runner], 'SIGKILL'),
  'its runner is stopped and its directory removed': (job) => {
    signal([job.runner], 'SIGSTOP');
    remove(job);
  },
  'its runner was killed and its directory removed': (job) => {
    signal([job.runner], 'SIGKILL');
    remove(job);
  },
  'its directory is renamed': ({ directory }) => renameSync(directory, `${directory}-renamed`),
  'its runner.json is removed': removeOne('runner.json'),
  'its job.json is removed': removeOne('job.json'),
  'its log is removed': removeOne('log'),
  'its Workspace is removed': removeOne('Workspace'),
};

/** The processes of a job: its runner, as `runner.json` says, and the others. */
export function processesOf(server, id) {
  const directory = server.jobDirectory(id);
  const runner = JSON.parse(readFileSync(path.join(directory, 'runner.json'), 'utf8')).runner.pid;
  const all = server.processes().filter((each) => each.id === id);
  const command = all.map(({ pid }) => pid).filter((pid) => pid !== runner);
  return { id, directory, runner, command };
}
