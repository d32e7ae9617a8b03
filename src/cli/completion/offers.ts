import type { Interfaces } from '@oclif/core';
import {
  type AvailableAppAnswer,
  app as appOf,
  apps,
  type Connection,
  devices,
  jobs,
  listProfiles,
} from '../../client/connection/index.js';
import {
  checkpointsOf,
  commandOf,
  counted,
  isFinal,
  jobStates,
  readParameters,
  shownValue,
} from '../../contract/index.js';
import type { ValueSource } from './kinds.js';

const byLetter = (flags: Interfaces.FlagInput, word: string) =>
  Object.values(flags).find(({ char }) => char !== undefined && word === `-${char}`);

/**
 * The words of an unfinished command line that belong to these flags, such as `--profile lab`. Words after `--` are not flags,
 * and the last word is still being typed.
 */
export function wordsOfFlags(words: readonly string[], flags: Interfaces.FlagInput): string[] {
  const end = words.indexOf('--');
  const typed = words.slice(0, end === -1 ? -1 : end);
  const kept: string[] = [];
  for (let index = 0; index < typed.length; index += 1) {
    const word = typed[index] ?? '';
    const [name = '', joined] = word.split(/=(.*)/s);
    const flag = name.startsWith('--') ? flags[name.slice(2)] : byLetter(flags, word);
    if (!flag) continue;
    if (flag.type === 'boolean' || joined !== undefined) {
      kept.push(word);
      continue;
    }
    index += 1;
    const value = typed[index];
    if (value !== undefined) kept.push(word, value);
  }
  return kept;
}

/** A value that fits at the cursor, and what a shell may show beside it. */
export interface Offer {
  readonly value: string;
  readonly about: string;
}

/** At most this many values are offered, because a longer list fits no screen. */
const maxOffers = 1000;

/** Whether a text is one line that any shell can show. What a server lists is not trusted. */
const isPlain = (text: string): boolean => !/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text);

/** The server of the command line, and the app that it names. */
interface Asked {
  readonly connection: Connection;
  readonly app: string | undefined;
}

type Connect = () => Promise<Asked>;

async function jobOffers(connect: Connect, isWanted: (isOver: boolean) => boolean): Promise<Offer[]> {
  return (await jobs((await connect()).connection))
    .filter(({ status }) => isWanted(isFinal(status)))
    .map(({ job_id, status, operation, app }) => ({
      value: job_id,
      about: [status, operation && commandOf(operation), app]
        .filter((each) => each && isPlain(each))
        .join(' '),
    }));
}

/** The offers that can follow those in front of the last comma of the word. */
function continued(word: string, offers: readonly Offer[]): Offer[] {
  const before = word.slice(0, word.lastIndexOf(',') + 1);
  const taken = before.split(',');
  return offers.flatMap(({ value, about }) =>
    taken.includes(value) ? [] : [{ value: before + value, about }],
  );
}

async function gpuOffers(connect: Connect, word: string): Promise<Offer[]> {
  const { devices_index: ids, devices_name: names } = await devices((await connect()).connection);
  return continued(
    word,
    ids.map((id, index) => ({ value: String(id), about: names[index] ?? '' })),
  );
}

async function tagOffers(connect: Connect): Promise<Offer[]> {
  const counts = new Map<string, number>();
  for (const { tag } of await jobs((await connect()).connection))
    if (tag !== null) counts.set(tag, (counts.get(tag) ?? 0) + 1);
  return [...counts].map(([value, count]) => ({ value, about: counted(count, 'job') }));
}

/** The description of the app that the command line names, or of the only one; null if there is none. */
async function described(connect: Connect): Promise<AvailableAppAnswer | null> {
  const { connection, app } = await connect();
  const [only, ...others] = app === undefined ? await apps(connection) : [app];
  if (only === undefined || others.length > 0) return null;
  const view = await appOf(connection, only);
  return view.available ? view : null;
}

async function parameterOffers(connect: Connect): Promise<Offer[]> {
  const { all } = readParameters((await described(connect))?.parameters);
  return all.map(({ name, value }) => ({
    value: `${name}=`,
    about: value === undefined ? '' : shownValue(value),
  }));
}

async function checkpointOffers(connect: Connect, word: string): Promise<Offer[]> {
  const view = await described(connect);
  const names = view === null ? [] : checkpointsOf(view);
  return continued(
    word,
    names.map((value) => ({ value, about: '' })),
  );
}

const sources: Readonly<
  Record<ValueSource, (connect: Connect, configDir: string, word: string) => Promise<Offer[]>>
> = {
  profiles: async (_, configDir) =>
    listProfiles(configDir).map(({ name, server }) => ({ value: name, about: server })),
  apps: async (connect) => {
    return (await apps((await connect()).connection)).map((value) => ({ value, about: '' }));
  },
  jobs: (connect) => jobOffers(connect, () => true),
  'active-jobs': (connect) => jobOffers(connect, (isOver) => !isOver),
  'ended-jobs': (connect) => jobOffers(connect, (isOver) => isOver),
  gpus: (connect, _, word) => gpuOffers(connect, word),
  tags: (connect) => tagOffers(connect),
  parameters: (connect) => parameterOffers(connect),
  checkpoints: (connect, _, word) => checkpointOffers(connect, word),
  states: async (_, __, word) =>
    continued(
      word,
      jobStates.map((value) => ({ value, about: '' })),
    ),
};

/**
 * The values of a source that fit at the cursor.
 * @param words of the command line up to the cursor; the last one is being typed
 * @param connect is called if the server has to be asked
 */
export async function findOffers(
  source: ValueSource,
  words: readonly string[],
  connect: Connect,
  configDir: string,
): Promise<Offer[]> {
  const word = (words.at(-1) ?? '').replace(/^--[^=]*=/, '');
  const given = new Set(words.slice(0, -1));
  return (await sources[source](connect, configDir, word))
    .filter(({ value }) => isPlain(value) && !given.has(value))
    .slice(0, maxOffers)
    .map(({ value, about }) => ({ value, about: isPlain(about) ? about : '' }));
}
