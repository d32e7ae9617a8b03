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

export type Connect = () => Promise<Asked>;

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

const sources = {
  profiles: async (_, configDir) =>
    listProfiles(configDir).map(({ name, server }) => ({ value: name, about: server })),
  apps: async (connect) => (await apps((await connect()).connection)).map((value) => ({ value, about: '' })),
  jobs: (connect) => jobOffers(connect, () => true),
  activeJobs: (connect) => jobOffers(connect, (isOver) => !isOver),
  endedJobs: (connect) => jobOffers(connect, (isOver) => isOver),
  gpus: (connect, _, word) => gpuOffers(connect, word),
  tags: (connect) => tagOffers(connect),
  parameters: (connect) => parameterOffers(connect),
  checkpoints: (connect, _, word) => checkpointOffers(connect, word),
  states: async (_, __, word) =>
    continued(
      word,
      jobStates.map((value) => ({ value, about: '' })),
    ),
} satisfies Record<string, (connect: Connect, configDir: string, word: string) => Promise<Offer[]>>;

/** Values that are looked up when Tab is pressed. */
export type ValueSource = keyof typeof sources;

/**
 * The values of a source that continue a word.
 * @param connect is called if the server has to be asked
 */
export async function findValues(
  source: ValueSource,
  word: string,
  connect: Connect,
  configDir: string,
): Promise<Offer[]> {
  return (await sources[source](connect, configDir, word))
    .filter(({ value }) => isPlain(value))
    .slice(0, maxOffers)
    .map(({ value, about }) => ({ value, about: isPlain(about) ? about : '' }));
}
