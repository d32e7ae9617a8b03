import { formatBytes } from '../../contract/index.js';
import type { SandboxReport } from '../../server/serve.js';
import type { ServerLog } from './server-log.js';

/** Tells the admin what keeps jobs apart from each other, or why nothing does. */
export function saySandbox(found: SandboxReport, log: ServerLog): void {
  if (found.version === null) {
    log.warn(`jobs run without a sandbox: ${found.problem}.`);
    log.warn('An app can read the files of every job, and all that this user can read.');
    if (found.limits.memory !== null) log.warn('--memory-per-job is not held without a sandbox.');
    log.warn('To run them so without this warning: --sandbox off.');
    return;
  }
  const seen = found.binds.map(({ path, isWritable }) => `${path}${isWritable ? ' (writable)' : ''}`);
  const files = ['the system', 'their app', 'their own files', ...seen].join(', ');
  log.say(`Jobs run in sandboxes (${found.version}). They see ${files}.`);
  if (found.unfiltered !== '') {
    log.warn(
      `jobs share this user's keys in the kernel, and may use sockets of virtual machines (AF_VSOCK): ${found.unfiltered}.`,
    );
  }
  const { processes, memory } = found.limits;
  const most = [
    ...(processes === null ? [] : [`${processes} processes and threads`]),
    ...(memory === null ? [] : [`${formatBytes(memory)} of memory`]),
  ];
  if (most.length > 0) log.say(`A job may use ${most.join(' and ')}; it is ended when it uses more.`);
  for (const variable of found.blindSpots) {
    log.warn(
      `${variable}: jobs do not see that place in their sandbox; show it to them with --bind or --bind-rw.`,
    );
  }
  for (const app of found.offline) {
    log.warn(
      `${app}: its jobs have no network to fetch what is missing of the repository; fetch it at the start with --download, or allow --network ${app}.`,
    );
  }
}
