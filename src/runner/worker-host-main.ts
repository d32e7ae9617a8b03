/**
 * The worker host: a process that starts a worker and gives it one job after another. Its only argument is its directory. It
 * outlives the server. `worker.json` says what to start; runners and the server connect to its socket.
 */

import { closeSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { readOwnFile } from '../files/own-file.js';
import { type WorkerRequest, workerFiles } from './protocol.js';
import { WorkerHost } from './worker-host.js';

/** Maximum size in bytes of `worker.json`. */
const maxRequestBytes = 64 << 20;

async function runHost(directory: string): Promise<void> {
  const text = readOwnFile(workerFiles(directory).request, maxRequestBytes);
  if (text === undefined) return;
  const host = new WorkerHost(directory, JSON.parse(text) as WorkerRequest);
  process.on('SIGTERM', () => host.leave());
  process.on('SIGINT', () => host.leave());
  process.on('SIGHUP', () => {});
  await host.open();
  // Closing stdout tells the server that the socket is listening.
  closeSync(1);
  await host.gone;
  // The directory belongs to the worker host, and is useless without the worker.
  await rm(directory, { recursive: true, force: true });
}

runHost(process.argv[2] ?? '.').then(
  () => process.exit(0),
  () => process.exit(1),
);
