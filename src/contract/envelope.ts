import type { JobEnvelope } from './job.js';
import { jobPath, logsPath, resultPath } from './paths.js';

/** The envelope of a job; paths are relative to the base address. */
export function jobEnvelope(id: string, acceptedOptions: readonly string[]): JobEnvelope {
  return {
    job_id: id,
    status_url: jobPath(id),
    logs_url: logsPath(id),
    result_url: resultPath(id),
    accepted_options: [...acceptedOptions].sort(),
  };
}
