import type { EndedJob, JobFacts, ServerEvents } from '../events.js';
import { type Job, secondsBetween } from './job.js';

/** A job, as it is named in what the server tells of it. */
export const factsOf = (job: Job): JobFacts => ({
  id: job.id,
  app: job.request.app,
  operation: job.request.operation,
  owner: job.request.owner,
});

function endOf(job: Job, state: EndedJob['state']): EndedJob {
  const { error, isRefused, gpus, uploadBytes: received, resultBytes: bytes } = job.record;
  const { ranFor: seconds, commandEndedAt: endedAt } = job;
  return { ...factsOf(job), state, error, isRefused, gpus, received, endedAt, seconds, bytes };
}

/** Tells of the transitions of a job from now on, each once. */
export function followJob(job: Job, events: ServerEvents): void {
  let last = job.state;
  const onChange = () => {
    const { state, record } = job;
    if (state === last) return;
    last = state;
    if (state === 'waiting') {
      const { waiting_for, queue_position } = job.view();
      events.tell('waiting', { ...factsOf(job), for: waiting_for, position: queue_position });
    } else if (state === 'running') {
      const waited = secondsBetween(record.createdAt, record.startedAt ?? record.createdAt);
      events.tell('started', { ...factsOf(job), gpus: record.gpus, waited });
    } else if (state !== 'queued') {
      job.off('change', onChange);
      events.tell('ended', endOf(job, state));
    }
  };
  job.on('change', onChange);
}
