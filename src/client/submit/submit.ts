import { randomUUID } from 'node:crypto';
import { jobEnvelope } from '../../contract/envelope.js';
import { parameters } from '../../contract/http.js';
import type { JobEnvelope } from '../../contract/job.js';
import { submitPath } from '../../contract/paths.js';
import { backoff, pause } from '../connection/backoff.js';
import type { Connection } from '../connection/connection.js';
import { TransportError } from '../errors.js';
import type { Reporter } from '../reporter.js';
import { Multipart } from './multipart.js';
import type { Staged } from './staging.js';
import type { Submission } from './submission.js';
import { UploadWatch } from './upload-watch.js';

/** How often a submission whose connection breaks is sent, all in all. */
const attempts = 4;

/**
 * How long a repeated upload waits before it sends its body, in milliseconds. A server may refuse a request by its head
 * alone; while a body is sent at full speed, the connection may be cut before that refusal is read.
 */
const holdBack = 1000;

async function attempt(
  connection: Connection,
  path: string,
  body: Multipart,
  key: string,
  held: boolean,
  reporter: Reporter,
): Promise<JobEnvelope> {
  const upload = new UploadWatch(body.length, connection.readTimeout, connection.signal, connection.server);
  const onBytes = (sent: number) => {
    // The body may hand out one more piece after the request has ended.
    if (upload.isDone) return;
    upload.moved(sent);
    reporter.progress('Uploading', sent, body.length);
  };
  try {
    const reply = await connection.send(path, {
      method: 'POST',
      headers: {
        'content-type': body.contentType,
        'content-length': String(body.length),
        [parameters.idempotencyKey.name]: key,
      },
      body: body.stream(onBytes, held ? () => pause(holdBack, upload.signal) : undefined),
      headTimeout: 0,
      signal: upload.signal,
    });
    const { envelopeAnswer } = await import('../connection/answer-schemas.js');
    const { job_id, accepted_options } = await connection.read(reply, path, envelopeAnswer, upload.signal);
    return jobEnvelope(job_id, accepted_options);
  } finally {
    upload.done();
  }
}

/**
 * Sends a submission (spec.md, Job submission). If the connection breaks before the answer, it is sent again with the same
 * `Idempotency-Key`, so that it never becomes two jobs.
 * @throws HttpError for a refusal; TransportError if every attempt broke
 */
export async function submit(
  connection: Connection,
  submission: Submission,
  staged: Staged,
  reporter: Reporter,
): Promise<JobEnvelope> {
  const body = new Multipart(staged.fields, staged.parts);
  const path = submitPath(submission.app, submission.operation.segment);
  const key = randomUUID();
  for (let number = 0; ; number++) {
    try {
      return await attempt(connection, path, body, key, number > 0, reporter);
    } catch (error) {
      // If the first attempt cannot connect, there is no server; a later one may meet a server that restarts.
      const worthwhile =
        error instanceof TransportError &&
        (error.fault === 'broken' || (error.fault === 'unreached' && number > 0));
      if (!worthwhile || number + 1 >= attempts) throw error;
      reporter.note(`${error.message}; sending it again`);
      await pause(backoff(number, 500), connection.signal);
    }
  }
}

/** Names of the options that were sent and that the server did not say it read (spec.md, Job options field). */
export function unacknowledged(submission: Submission, envelope: JobEnvelope): string[] {
  return Object.keys(submission.options).filter((name) => !envelope.accepted_options.includes(name));
}
