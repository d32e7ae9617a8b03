import { runProgram } from '../../programs/index.js';

/** Milliseconds that the program may take. */
const limit = 5000;

/**
 * Tells systemd that the service is ready or stops, if the unit says `Type=notify`. sd_notify(3) needs a datagram socket with
 * a path, which Node lacks, so systemd's own program does it; the unit needs `NotifyAccess=all` for that.
 * @param state an assignment of sd_notify(3)
 * @param environment of the server; without `NOTIFY_SOCKET` nothing is done
 */
export async function notifyServiceManager(
  state: 'READY=1' | 'STOPPING=1',
  environment: NodeJS.ProcessEnv,
): Promise<void> {
  const { NOTIFY_SOCKET: socket, PATH: searchPath = '' } = environment;
  if (!socket) return;
  const { exitCode, stderr } = await runProgram(['systemd-notify', state], {
    environment: { NOTIFY_SOCKET: socket, PATH: `${searchPath}:/usr/bin:/bin` },
    limit,
    maxBytes: 1000,
    beyond: 'keepFirst',
  });
  if (exitCode !== 0) throw new Error(stderr.trim() || `systemd-notify ended with ${exitCode}`);
}
