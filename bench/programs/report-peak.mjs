/**
 * Preloaded into a Node program whose memory is measured: leaves its peak, in MiB, in a file as it ends. Not
 * getrusage(2), whose figure begins with the peak of whoever started the process.
 */
import { writeFileSync } from 'node:fs';
import { peakMemory } from '../support/usage.mjs';

process.on('exit', () => writeFileSync(process.env.BENCH_PEAK_FILE, String(peakMemory('self'))));
