import { type Connection, type JobAnswer, jobs } from '../../client/connection/index.js';
import type { JobState } from '../../contract/index.js';
import { listJobs, noJobs } from '../job-text.js';
import type { Watched } from './watch.js';

export interface JobSelection {
  /** The states that count; all of them if there are none. */
  readonly states: readonly JobState[] | undefined;
  readonly tag: string | undefined;
  /** Whether only ids are shown. */
  readonly quiet: boolean;
  /** Whether the jobs of all owners are shown, and whose each is. */
  readonly all: boolean;
}

export interface JobsDocument {
  readonly jobs: readonly JobAnswer[];
}

/** The jobs of a server that a person asked for: how they are read, and how they are shown. */
export function selectedJobs(
  connection: Connection,
  { states, tag, quiet, all }: JobSelection,
): Watched<JobsDocument> & { readonly none: string } {
  const none = noJobs(connection.server, states, tag);
  return {
    none,
    read: async () => {
      const list = await jobs(connection, { all, tag });
      return { jobs: states ? list.filter(({ status }) => states.includes(status)) : list };
    },
    lines: (document) => {
      if (quiet) return document.jobs.map(({ job_id }) => job_id);
      return document.jobs.length > 0 ? listJobs(document.jobs, connection.now(), all) : [none];
    },
    change: (document) => JSON.stringify(document),
  };
}
