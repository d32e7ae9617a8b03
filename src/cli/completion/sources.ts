import { apps, type Connection, jobs, listProfiles } from '../../client/connection/index.js';
import { commandOf, isFinal, jobStates } from '../../contract/index.js';

/** A candidate for completion, with a description that the shell may show beside it. */
export interface Offer {
  readonly value: string;
  readonly about: string;
}

/** Maximum number of candidates, because a longer list fits no screen. */
const maxOffers = 1000;

/** Whether a text is one line that any shell can show. What a server lists is not trusted. */
const isPlain = (text: string): boolean => !/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text);

/** Connects to the server of the command line. */
export type Connect = () => Promise<Connection>;

async function jobOffers(connect: Connect, isWanted: (isOver: boolean) => boolean): Promise<Offer[]> {
  return (await jobs(await connect()))
    .filter(({ status }) => isWanted(isFinal(status)))
    .map(({ job_id, status, operation, app }) => ({
      value: job_id,
      about: [status, operation && commandOf(operation), app]
        .filter((each) => each && isPlain(each))
        .join(' '),
    }));
}

/** The job states that can still be added to a comma-separated list. */
function stateOffers(word: string): Offer[] {
  const before = word.slice(0, word.lastIndexOf(',') + 1);
  const taken = before.split(',');
  return jobStates
    .filter((state) => !taken.includes(state))
    .map((state) => ({ value: before + state, about: '' }));
}

const sources = {
  profiles: async (_, configDir) =>
    listProfiles(configDir).map(({ name, server }) => ({ value: name, about: server })),
  apps: async (connect) => (await apps(await connect())).map((value) => ({ value, about: '' })),
  jobs: (connect) => jobOffers(connect, () => true),
  activeJobs: (connect) => jobOffers(connect, (isOver) => !isOver),
  endedJobs: (connect) => jobOffers(connect, (isOver) => isOver),
  states: async (_, __, word) => stateOffers(word),
} satisfies Record<string, (connect: Connect, configDir: string, word: string) => Promise<Offer[]>>;

/** Values that are looked up when Tab is pressed. */
export type ValueSource = keyof typeof sources;

/** The values from a source that start with the word. @param connect called if the server must be asked */
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
