import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { shellApp } from './apps.mjs';
import { Server } from './server.mjs';
import { cpuSeconds } from './usage.mjs';

/** A form in the words of curl's configuration: 2,000 files are too much for a command line that one can read. */
export async function curlForm(workshop, files) {
  const config = path.join(await workshop.directory('curl'), 'form');
  const parts = files.map((file) => `form = "inputs=@${file}"`);
  await writeFile(config, ['form = "cpu=1"', ...parts].join('\n'));
  return config;
}

/** Measures an upload with what it costs the receiver. */
export async function receiving({ pid }, send) {
  const before = cpuSeconds(pid);
  const { seconds } = await send();
  return { seconds, cpu: cpuSeconds(pid) - before };
}

/**
 * Runs `measure` with a server, and `settle`, which waits until an upload is over and done with.
 * @param grace how long the server keeps an upload
 */
export async function withServer(workshop, grace, measure) {
  const app = await shellApp(workshop, 'nothing', ':');
  // A detached job asks for more than the grace, as much as the server allows.
  const flags = ['--grace', String(grace), '--max-keep', '0'];
  const server = await Server.start(workshop, { apps: [app], flags });
  const settle = () => (grace === 0 ? server.emptied() : server.quiet());
  try {
    return await measure(server, settle);
  } finally {
    await server.stop();
    await rm(server.dataDirectory, { recursive: true });
  }
}
