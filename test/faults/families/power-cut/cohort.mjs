import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { startRemoteApp } from '../../support/client.mjs';
import { until } from '../../support/until.mjs';
import { seenIn, stampOf } from './stamps.mjs';
import { callsOn, tracer } from './trace.mjs';

/** What is written to a mask by hand. */
export const correction = 'corrected by hand';

/** The stamp of each case's outputs, which the next command believes, by the case and the job that made them. */
function noteStamps(context, study, output, stamps) {
  for (const [name, [, , stamp]] of Object.entries(seenIn(output))) {
    const { job_id: job, outputs } = study.recordOf(name, output);
    const own = stampOf(path.join(output, name), outputs);
    // One that was corrected by hand is not as it was recorded.
    const isSame = stamp === own || own === null;
    context.check(isSame, `The harness does not understand the stamp of the case ${name}`);
    stamps.set(`${name} ${job}`, stamp);
  }
}

/**
 * Records a client with a few cases under strace: a command that computes all of them, a correction by hand, and a command after
 * one input has changed. The server keeps the jobs.
 */
export async function recordCohort(context, study, server) {
  const { random } = context;
  for (const number of [1, 2, 3, 4])
    study.add(number, `scan ${number} ${random.word(random.integer(1, 3000))}`);
  const output = path.join(context.scratch, `cohort-${String(context.serial()).padStart(6, '0')}`);
  const stamps = new Map();
  const calls = [];
  const traced = async (start) => {
    const trace = path.join(context.scratch, `trace-${context.serial()}`);
    const pid = await start(tracer(trace));
    // The tracer ends a moment after the command.
    const end = new RegExp(`^${pid} +\\+\\+\\+ exited with`, 'm');
    await until('the trace is written', () => end.test(readFileSync(trace, 'latin1')));
    calls.push(...callsOn(output, trace, /^pipe/));
    return calls.length;
  };
  const command = (launcher) => {
    const { child, ended } = startRemoteApp(context, study.words(output), {
      url: server.url,
      launcher,
      environment: { UV_USE_IO_URING: '0' },
    });
    return ended.then(({ code, stderr }) => {
      if (code !== 0) throw new Error(`A cohort ended with ${code}: ${stderr.slice(-800)}`);
      return child.pid;
    });
  };
  await traced(command);
  noteStamps(context, study, output, stamps);
  const [changed, corrected] = [...study.scans.keys()];
  const mask = path.join(output, corrected, 'mask.nii');
  const isCorrectingFrom = calls.length;
  const isCorrectedAt = await traced(async ([first, ...words]) => {
    const child = spawn(first, [...words, 'sh', '-c', `echo '${correction}' >> "$0" && sync "$0"`, mask], {
      stdio: 'ignore',
    });
    await once(child, 'exit');
    return child.pid;
  });
  study.add(1, `scan 1 again ${random.word(random.integer(1, 3000))}`);
  await traced(command);
  noteStamps(context, study, output, stamps);
  return {
    study,
    server,
    output,
    calls,
    stamps,
    changed,
    corrected,
    isCorrectingFrom,
    isCorrectedAt,
    computed: study.computed.length,
  };
}
