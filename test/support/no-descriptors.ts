import { spawn } from 'node:child_process';
import { once } from 'node:events';

/**
 * Calls a function while this process cannot open any more descriptors. The function must be synchronous, because other code
 * in the process would fail as well.
 */
export async function withNoDescriptors<T>(use: () => T): Promise<T> {
  // Started beforehand, because starting a process needs descriptors.
  const script = `soft=$(prlimit --pid=$1 --nofile --output=SOFT --noheadings)
prlimit --pid=$1 --nofile=3: && echo && read line; prlimit --pid=$1 --nofile=$soft:`;
  const limiter = spawn('sh', ['-c', script, 'sh', String(process.pid)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(limiter, 'close');
  await once(limiter.stdout, 'data');
  try {
    return use();
  } finally {
    limiter.stdin.end('\n');
    await ended;
  }
}
