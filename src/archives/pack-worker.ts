/** The thread that packs a directory, so that a large result does not hold up whoever asked for it. */
import { parentPort, workerData } from 'node:worker_threads';
import { packDirectory } from './pack.js';

const { source, archive } = workerData as { source: string; archive: string };
parentPort?.postMessage(await packDirectory(source, archive));
