import { rows as cliStart } from './cli-start.mjs';
import { rows as cohort } from './cohort.mjs';
import { rows as deidentify } from './deidentify.mjs';
import { rows as download } from './download.mjs';
import { rows as extract } from './extract.mjs';
import { rows as firstLine } from './first-line.mjs';
import { rows as inputs } from './inputs.mjs';
import { rows as jobThroughput } from './job-throughput.mjs';
import { rows as lineDelay } from './line-delay.mjs';
import { rows as liveLogs } from './live-logs.mjs';
import { rows as logReplay } from './log-replay.mjs';
import { rows as memoryStreams } from './memory-streams.mjs';
import { rows as memoryTransfer } from './memory-transfer.mjs';
import { rows as pack } from './pack.mjs';
import { rows as resident } from './resident.mjs';
import { rows as send } from './send.mjs';
import { rows as serveStart } from './serve-start.mjs';
import { rows as sharedGpu } from './shared-gpu.mjs';
import { rows as show } from './show.mjs';
import { rows as upload } from './upload.mjs';
import { rows as uploadOne } from './upload-one.mjs';
import { rows as writeSeg } from './write-seg.mjs';

/** All rows, in the order of the table. */
export const rows = [
  ...uploadOne,
  ...upload,
  ...send,
  ...memoryTransfer,
  ...memoryStreams,
  ...logReplay,
  ...liveLogs,
  ...lineDelay,
  ...firstLine,
  ...resident,
  ...cohort,
  ...jobThroughput,
  ...sharedGpu,
  ...pack,
  ...download,
  ...extract,
  ...inputs,
  ...show,
  ...deidentify,
  ...writeSeg,
  ...cliStart,
  ...serveStart,
];
