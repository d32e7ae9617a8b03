import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { unzip } from '../../../support/unzip.mjs';
import { isFinal, request } from '../../support/api.mjs';
import { plant, step } from '../../support/plan.mjs';
import { until } from '../../support/until.mjs';
import { askKill } from '../kill/kill-case.mjs';
import { filesBelow } from '../records/kept.mjs';

/** Milliseconds in which a job must end after its command. */
const endBound = 15_000;
const startBound = 15_000;

/** The names, contents and modes of a directory that a job may not change. */
const look = (directory) =>
  [...filesBelow(directory)]
    .map(({ file, info }) => `${file} ${info.mode} ${info.isFile() ? readFileSync(file, 'latin1') : ''}`)
    .concat(`mode ${statSync(directory).mode}`)
    .join('\n');

/** Every answer that may show what a link leads to. A log that does not end is read for as long as it says something. */
async function answers(server, id) {
  const paths = ['', '/logs', '/result', '/result?partial=1'];
  const read = async (tail) => {
    try {
      const { status, bytes } = await request(server, `/jobs/${id}${tail}`, { limit: 5000 });
      const isArchive = status === 200 && tail.startsWith('/result');
      return isArchive ? [...unzip(bytes)].flat().join('\n') : bytes.toString('latin1');
    } catch {
      return '';
    }
  };
  return (await Promise.all(paths.map(read))).join('\n');
}

async function endOf(context, server, id, what) {
  const view = async () => {
    const { status, text } = await request(server, `/jobs/${id}`);
    return status === 200 ? JSON.parse(text) : { status: `answer ${status}` };
  };
  const isOver = async () => {
    const now = await view();
    return isFinal(now) || now.status.startsWith('answer') ? now : null;
  };
  const ended = await until('it ends', isOver, endBound).catch(() => null);
  if (ended !== null) return;
  const answer = await askKill(server, id);
  const after = await view();
  const isKilled = answer !== null && (isFinal(after) || after.status.startsWith('answer'));
  context.check(
    isKilled,
    `A job where ${what} goes on after its command has ended, and a kill leaves it ${after.status}`,
  );
}

/**
 * A job plants something while it runs; then it prints and ends, perhaps under another server. Returns what checks
 * that nothing outside of the job has changed.
 */
export async function plantCase(context, server, home, what, make) {
  context.count(`a job where ${what}`);
  const { random } = context;
  const victim = path.join(home, `victim-${context.serial()}`);
  const hidden = `hidden ${random.word(30)}`;
  mkdirSync(path.join(victim, 'sub'), { recursive: true });
  for (const name of ['file', 'sub/file']) writeFileSync(path.join(victim, name), `${hidden} ${name}`);
  const before = look(victim);
  let isChanged = false;
  const checkVictim = () => {
    if (isChanged || look(victim) === before) return;
    isChanged = true;
    context.violation(`A job where ${what} changed what lies outside of it`);
  };
  const gate = path.join(home, `gate-${context.serial()}`);
  const planted = path.join(home, `planted-${context.serial()}`);
  const plan = [
    step.file('answer', 'of the app'),
    ...make({ victim, random }),
    step.file(planted, '', 'absolute'),
    step.wait(gate),
    ...Array.from({ length: 20 }, (_, at) => step.print(`line ${at}`)),
  ];
  try {
    const id = await plant(context, server, home, plan);
    await until('it has planted', () => statSync(planted, { throwIfNoEntry: false }) !== undefined, 20_000);
    if (random.chance(0.4)) {
      await server.kill();
      server.spawn();
      await server.listening(startBound);
    }
    const during = answers(server, id);
    await delay(random.integer(0, 300));
    writeFileSync(gate, '');
    await endOf(context, server, id, what);
    const all = `${await during}\n${await answers(server, id)}`;
    context.check(!all.includes(hidden), `A job where ${what} was answered with what lies outside of it`);
    const health = await request(server, '/health', { limit: 5000 });
    context.check(health.status === 200, `After a job where ${what}, /health answers ${health.status}`);
  } finally {
    writeFileSync(gate, '');
    checkVictim();
  }
  return checkVictim;
}
