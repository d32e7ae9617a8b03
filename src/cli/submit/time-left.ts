import { askForecast, type Connection, forecastOf, forecastOfJob } from '../../client/connection/index.js';
import type { Reporter } from '../../client/reporter.js';
import type { Submission } from '../../client/submission.js';
import { formatDuration } from '../terminal/index.js';

interface ForecastTeller {
  /** The job has started to run. */
  readonly onStarted: (jobId: string) => void;
  /** The job has ended: a forecast that comes later is not told. */
  readonly over: () => void;
}

/** Says, once a job runs, how long it is likely to take. */
export function tellForecast(connection: Connection, reporter: Reporter): ForecastTeller {
  let isOver = false;
  const tell = async (jobId: string) => {
    const forecast = await forecastOfJob(connection, jobId);
    if (forecast === null || isOver) return;
    const { seconds, cases } = forecast;
    const last = cases === 1 ? 'the last case' : `the last ${cases} cases`;
    reporter.note(`This takes about ${formatDuration(seconds)}, as ${last} did`);
  };
  return {
    onStarted: (jobId) => void tell(jobId),
    over: () => {
      isOver = true;
    },
  };
}

/** How long a case of a cohort is likely to run, by earlier jobs on the server, in seconds; null if they don't tell. */
export async function secondsOfCase(
  connection: Connection,
  { app, operation }: Submission,
): Promise<number | null> {
  const forecast = await askForecast(connection, (jobs) =>
    forecastOf(jobs, { app, operation: operation.segment }),
  );
  return forecast?.seconds ?? null;
}
