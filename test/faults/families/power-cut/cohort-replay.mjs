import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { remoteApp, startRemoteApp } from '../../support/client.mjs';
import { until } from '../../support/until.mjs';
import { cutAfter, materialise } from './survivors.mjs';
import { callsOn, tracer } from './trace.mjs';

const seenFile = (output) => path.join(output, '.remote-app', 'seen.json');

/** What a command noted of the cases, for the next one: the stamp of the inputs, their hash, the stamp of the outputs. */
const seenIn = (output) => JSON.parse(readFileSync(seenFile(output), 'utf8'));

/** The stamp of outputs as the client computes it; null if one is missing, or has another size. */
function stampOf(directory, outputs) {
  const hash = createHash('sha256');
  for (const { name, size: recorded } of outputs) {
    const stats = statSync(path.join(directory, name), { throwIfNoEntry: false });
    if (stats?.size !== recorded) return null;
    const { size, mtimeMs, ctimeMs, ino } = stats;
    hash.update(`${path.basename(name)}\0${size} ${mtimeMs} ${ctimeMs} ${ino}\n`);
  }
  return hash.digest('hex');
}

/**
 * Gives outputs the stamps that they had before a power cut: a file system may keep the times and the inode of a file whose
 * content is lost.
 * @param stamps of the outputs before it, by the case and its job
 */
function keepStamps(study, output, stamps) {
  let seen;
  try {
    seen = seenIn(output);
  } catch {
    // It is lost, or damaged.
    return;
  }
  for (const [name, row] of Object.entries(seen)) {
    const record = study.recordOf(name, output);
    const isOf = record !== null && row[2] === stamps.get(`${name} ${record.job_id}`);
    const stamp = isOf ? stampOf(path.join(output, name), record.outputs) : null;
    if (stamp !== null) row[2] = stamp;
  }
  writeFileSync(seenFile(output), JSON.stringify(seen));
}

/** What is written to a mask by hand. */
const correction = 'corrected by hand';

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

/** The cases that a call tells to be done. */
export function toldIn({ name, args }) {
  if (!/^writev?$/.test(name) || !args[0]?.path?.startsWith('pipe')) return [];
  const said = Buffer.concat(args.flatMap(({ bytes }) => bytes ?? [])).toString();
  return [...said.matchAll(/^done (\S+)/gm)].map(([, told]) => told);
}

/** The table is whole, and what it calls done is there, or will be put back by the next command. */
function checkTable(context, { study, corrected, isCorrectingFrom }, output, count, when) {
  if (!existsSync(path.join(output, 'cases.csv'))) return;
  const table = study.table(output);
  context.check(
    table.size === study.scans.size,
    `A power cut leaves a table of ${table.size} cases (${when})`,
  );
  for (const [name, { status }] of table) {
    // It is as the last command found it, and the person has been there since.
    const isChanged = name === corrected && count > isCorrectingFrom;
    if (status !== 'done' || isChanged) continue;
    const places = [output, path.join(output, '.remote-app', 'old')];
    const isThere = places.some((place) => study.isWhole(name, place));
    context.check(isThere, `The table calls the case ${name} done, and it is not there (${when})`);
  }
}

/** A mask that a person changes: one that is not as it was computed is called edited, and has lost nothing of what was synced. */
function checkCorrection(context, { study, corrected }, output, isSynced, when) {
  const mask = readFileSync(path.join(output, corrected, 'mask.nii'), 'utf8');
  const { status } = study.table(output).get(corrected);
  const isComputed = study.faultOf(corrected, output) === null;
  if (!isComputed) context.count('a mask that a person had begun to correct');
  context.check(
    status === (isComputed ? 'done' : 'edited'),
    `The case ${corrected} is called ${status} after a power cut, and its mask is ${JSON.stringify(mask)} (${when})`,
  );
  const least = study.maskOf(corrected) + (isSynced ? correction : '');
  context.check(
    mask.startsWith(least),
    `A mask that was corrected by hand is gone after a power cut: ${JSON.stringify(mask)} (${when})`,
  );
}

/** The results are whole and those of their inputs, and nothing else is left. */
function checkResults(context, cohort, output, count, when) {
  const { study, corrected, isCorrectingFrom, isCorrectedAt } = cohort;
  const isCorrecting = count > isCorrectingFrom;
  for (const name of study.scans.keys()) {
    if (isCorrecting && name === corrected) continue;
    const fault = study.faultOf(name, output);
    context.check(
      fault === null,
      `The case ${name} ${fault} after a power cut and the same command (${when})`,
    );
  }
  if (isCorrecting) checkCorrection(context, cohort, output, count >= isCorrectedAt, when);
  const own = path.join(output, '.remote-app');
  const expected = ['.remote-app', 'cases.csv', ...study.scans.keys(), 'jobs.jsonl', 'seen.json', 'old'];
  const there = [...readdirSync(output), ...readdirSync(own)];
  const left = there.filter((name) => !expected.includes(name));
  // Results that were replaced lay here.
  if (existsSync(path.join(own, 'old'))) left.push(...readdirSync(path.join(own, 'old')));
  context.check(
    left.length === 0,
    `${left.join(', ')} is left after a power cut and the same command (${when})`,
  );
}

/** Cuts the power after so many calls of the client, and gives the same command on what may be on the disk then. */
export async function replayCohort(context, cohort, count, random) {
  const { study, server, calls, stamps, changed, corrected, isCorrectedAt, computed } = cohort;
  const { state, when } = cutAfter(calls, count, cohort.output, random);
  const output = path.join(context.scratch, `cohort-${String(context.serial()).padStart(6, '0')}`);
  materialise(state, output);
  keepStamps(study, output, stamps);
  context.count(`a power cut of a client that leaves ${state.what.split(', ')[0]}`);
  try {
    checkTable(context, cohort, output, count, when);
    const { code, stdout, stderr } = await remoteApp(context, [...study.words(output), '--json'], {
      url: server.url,
    });
    if (code !== 0) {
      context.violation(`A cohort after a power cut ended with ${code}: ${stderr.slice(-800)} (${when})`);
      return;
    }
    checkResults(context, cohort, output, count, when);
    const isNew = new Map(JSON.parse(stdout).cases.map((each) => [each.case, each.is_new]));
    for (const [at, call] of calls.slice(0, count).entries()) {
      for (const name of toldIn(call)) {
        // The second command computes these again.
        const isOver = at < isCorrectedAt && [changed, corrected].includes(name);
        context.check(
          isOver || !isNew.get(name),
          `The case ${name} was told to be done before a power cut, and is done again after it (${when})`,
        );
      }
    }
    context.check(
      study.computed.length === computed,
      `A case was computed again after a power cut (${when})`,
    );
  } finally {
    rmSync(output, { recursive: true, force: true });
  }
}
