/**
 * The keeper: holds one loaded app, the worker, and gives it job after job. Started with its directory as its one argument;
 * outlives the server. What it is to do is in `worker.json`; runners and the server reach it by a socket.
 */

import { closeSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { readOwnFile } from '../files/own-file.js';
import { type WorkerRequest, workerFiles } from '../runner/worker-files.js';
import { Keeper } from './keeper.js';

/** Longest `worker.json`, in bytes. */
const maxRequestBytes = 64 << 20;

async function keep(directory: string): Promise<void> {
  const text = readOwnFile(workerFiles(directory).request, maxRequestBytes);
  if (text === undefined) return;
  const keeper = new Keeper(directory, JSON.parse(text) as WorkerRequest);
  process.on('SIGTERM', () => keeper.leave());
  process.on('SIGINT', () => keeper.leave());
  process.on('SIGHUP', () => {});
  await keeper.open();
  // Tells the server that the socket is there.
  closeSync(1);
  await keeper.gone;
  // Its own directory, which nobody needs once the worker is gone.
  await rm(directory, { recursive: true, force: true });
}

keep(process.argv[2] ?? '.').then(
  () => process.exit(0),
  () => process.exit(1),
);
