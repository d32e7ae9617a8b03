/** The thread that writes small files beside the one that extracts. */
import { parentPort, workerData } from 'node:worker_threads';
import { BatchWriter } from './batch-writer.js';
import type { Batch } from './entry-batches.js';

const writer = new BatchWriter(workerData as number);
parentPort?.on('message', (batch: Batch) => parentPort?.postMessage(writer.write(batch)));
