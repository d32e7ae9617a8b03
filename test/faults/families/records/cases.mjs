import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { giveAway } from '../../support/unprivileged.mjs';
import { checkForeign, checkListing, checkUntouched, listing, startsWithin } from './checks.mjs';
import { damages, expiredDamages, makeOld } from './damage.mjs';
import { foreign } from './foreign.mjs';
import { inventory, lost } from './kept.mjs';

/** The files of a job that a server reads, and in which states of the job it has them. */
const records = [
  ['job.json', ['done', 'error', 'killed', 'ended', 'waiting']],
  ['exit.json', ['done', 'error', 'ended']],
  ['runner.json', ['done', 'ended']],
  ['run.json', ['done', 'ended']],
];
const damagesAtOnce = 3;

/** The files of a job that must never be lost: all but the records, if its main record is damaged. */
const isKept = (record) => (file) =>
  record === 'job.json' ? !/^(log$|[^/]*\.json)/.test(file) : /^(Output\/|result\.zip$)/.test(file);

/** This many cases, which go through all kinds of damage before one is repeated. */
export function dealDamages(context, world, count) {
  const { random } = context;
  const deck = [];
  const draw = () => {
    // `job.json` is the main record of a job: it is damaged as often as the others together.
    if (deck.length === 0) {
      const kinds = (names) => names.flatMap((name) => Object.keys(damages).map((kind) => [name, kind]));
      const others = random.shuffle(kinds(records.slice(1).map(([name]) => name)));
      deck.push(...random.shuffle([...kinds(['job.json']), ...others.slice(0, 16)]));
    }
    return deck.pop();
  };
  return Array.from({ length: count }, () => {
    const left = random.shuffle(world.jobs);
    const damaged = [];
    while (damaged.length < damagesAtOnce) {
      const [record, kind] = draw();
      const states = records.find(([name]) => name === record)[1];
      const at = left.findIndex(({ state }) => states.includes(state));
      if (at >= 0) damaged.push({ record, kind, ...left.splice(at, 1)[0] });
    }
    const old = random.pick(left);
    const strangers = random.shuffle(foreign).slice(0, 2);
    const expired = random.chance(0.4) ? random.pick(Object.keys(expiredDamages)) : null;
    return { damaged, old, strangers, expired };
  });
}

/** Carries out a case; returns the files that must be found again. */
function inflict(context, world, { damaged, old, strangers, expired }) {
  const { random } = context;
  const kept = [];
  for (const { id, record, kind } of damaged) {
    const directory = path.join(world.data, 'jobs', id);
    kept.push(...inventory(directory, isKept(record)));
    damages[kind](
      path.join(directory, record),
      random,
      path.join(world.user.home, `outside-${context.serial()}`),
    );
    context.count(`a ${record} ${kind}`);
  }
  makeOld(path.join(world.data, 'jobs', old.id, 'job.json'));
  for (const { where, name, make } of strangers) {
    const outside = path.join(world.user.home, `outside-${context.serial()}`);
    mkdirSync(outside);
    writeFileSync(path.join(outside, 'data'), random.word(40));
    const at = path.join(world.data, where, name);
    make(at, random, outside);
    kept.push(...inventory(path.dirname(at), (file) => file === name || file.startsWith(`${name}/`)));
    context.count(`a foreign ${where}/${name}`);
  }
  if (expired !== null) {
    const file = path.join(world.data, 'expired');
    writeFileSync(file, '', { flag: 'a' });
    expiredDamages[expired](file, random);
    if (expired !== 'a directory') giveAway(file);
    context.count(`the list of expired jobs is ${expired}`);
  }
  return kept;
}

const tell = ({ damaged, strangers, expired }) =>
  [
    ...damaged.map(({ id, record, kind, state }) => `a ${record} ${kind} (${state}, ${id})`),
    ...strangers.map(({ where, name }) => `a foreign ${where}/${name}`),
    ...(expired === null ? [] : [`'expired' ${expired}`]),
  ].join(', ');

/** Two starts on a damaged directory. */
export async function damagedCase(context, world, damaged) {
  await world.reset();
  const kept = inflict(context, world, damaged);
  const what = tell(damaged);
  const server = world.server();
  try {
    if (!(await startsWithin(context, server, what))) return;
    const said = server.stderr;
    const touched = new Set(damaged.damaged.map(({ id }) => id));
    const untouched = world.jobs.filter(({ id }) => !touched.has(id));
    await checkUntouched(context, world, server, untouched, what);
    await checkForeign(context, world, server, damaged, said, what);
    await server.kill();
    const before = listing(world.data);
    if (!(await startsWithin(context, server, `${what}, a second time`))) return;
    await checkUntouched(context, world, server, untouched, `${what}, a second time`);
    await server.kill();
    checkListing(context, before, listing(world.data), what);
  } catch (cause) {
    context.violation(`With ${what}: ${cause.message}`);
  } finally {
    await server.kill();
    const gone = lost(world.data, kept);
    context.check(gone.length === 0, `A start with ${what} deleted ${gone.slice(0, 4).join(', ')}`);
    await world.clear();
  }
}
