import { readFileSync } from 'node:fs';
import {
  boundary,
  fieldPart,
  filePart,
  multipart,
  multipartType,
  requestHead,
} from '../../../support/multipart.mjs';
import { HealthWatch } from '../../support/health-watch.mjs';
import { pour } from '../../support/pour.mjs';
import { Server } from '../../support/server.mjs';
import { within } from '../../support/until.mjs';

/** Seconds of CPU that one upload of many parts may take, on a busy machine. */
const cpuBound = 8;
/** Milliseconds that /health may take meanwhile, on a busy machine. */
const healthBound = 2000;
const answerBound = 40_000;
/** Clock ticks of the kernel in a second. */
const ticks = 100;

/** Seconds of CPU that a process has used. */
function cpuOf(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticks;
}

const pieces = (body) => {
  const all = [
    requestHead('POST', '/apps/witness/infer', [
      `Content-Type: ${multipartType}`,
      `Content-Length: ${body.length}`,
    ]),
  ];
  for (let at = 0; at < body.length; at += 65_536) all.push(body.subarray(at, at + 65_536));
  return all;
};

/** Sends one upload; it must be accepted, or refused with a sentence, and cost little. */
async function upload(context, what, body, { allowed, launcher = [], maxCpu = cpuBound }) {
  const server = await new Server(context, { launcher }).start();
  const watch = new HealthWatch(context, server);
  const before = cpuOf(server.pid);
  try {
    const answer = await within('an answer', pour(server, pieces(body)), answerBound).catch(() => null);
    const took = cpuOf(server.pid) - before;
    const said =
      answer === null
        ? `nothing within ${answerBound / 1000} s`
        : `${answer.status}: ${answer.body.slice(0, 200)}`;
    context.check(allowed.includes(answer?.status), `${what} were answered with ${said}`);
    context.check(took <= maxCpu, `${what} took ${took.toFixed(1)} s of the server's CPU`);
  } finally {
    // Its remaining jobs do not matter, and may take long.
    const times = watch.end();
    await server.kill();
    const slowest = Math.max(0, ...(await times));
    context.check(slowest <= healthBound, `${what} kept /health waiting for ${slowest.toFixed(0)} ms`);
    for (const { pid } of server.processes()) process.kill(pid, 'SIGKILL');
  }
}

const named = (count, name) =>
  multipart(Array.from({ length: count }, (_, at) => filePart('inputs', name(at), 'v')));
const refusals = [400, 413, 422];

export const manyParts = {
  '1,500 small files at 1,024 descriptors': (context) =>
    upload(
      context,
      '1,500 small files at 1,024 descriptors',
      named(1500, (at) => `slice-${at}.dcm`),
      {
        allowed: [200],
        launcher: ['prlimit', '--nofile=1024:1024'],
      },
    ),
  '20,000 files of one name': (context) =>
    upload(
      context,
      '20,000 files of one name',
      named(20_000, () => 'slice.dcm'),
      { allowed: [200, ...refusals] },
    ),
  '100,000 fields': (context) => {
    const fields = multipart(Array(100_000).fill(fieldPart('mine', '1')), { close: '' });
    const whole = Buffer.concat([
      fields,
      multipart([filePart('inputs', 'scan.nii')], { close: `--${boundary}--\r\n` }),
    ]);
    return upload(context, '100,000 fields', whole, { allowed: [200, ...refusals], maxCpu: 15 });
  },
};
