import {
  type JobEnvelope,
  jobEnvelope,
  mediaTypes,
  optionsField,
  parameters,
  submitPath,
} from '../../contract/index.js';
import { type Connection, pause, submissionAnswer } from '../connection/index.js';
import { HttpError, Interrupted, isBusy } from '../errors.js';
import type { Reporter } from '../reporter.js';
import type { Submission } from '../submission.js';
import { Attempts, mayBeAccepted, RequestWatch } from './attempts.js';
import { Multipart, uniqueText } from './multipart.js';
import { FileSender } from './send-files.js';
import type { Staged, StagedFile } from './staging.js';

/**
 * How long a repeated submission waits before it sends its body, in milliseconds. A server may refuse a request by its head
 * alone; while a body is sent at full speed, the connection may be cut before that refusal is read.
 */
const holdBack = 1000;

/** The body of a submission, which can be sent again. */
type Body = Pick<Multipart, 'contentType' | 'length' | 'stream'>;

/** A file in a submission of JSON (docs/http.md, Submission). */
interface Reference {
  readonly upload: string;
  readonly name: string;
}

/** The submission of files that are uploads: its fields as in the form, and the files by their names. */
function jsonBody(
  { operation, options }: Submission,
  { fields }: Staged,
  files: readonly StagedFile[],
  sender: FileSender,
): Body {
  const document: Record<string, unknown> = { ...fields };
  if (Object.keys(options).length > 0) document[optionsField] = options;
  for (const { name, kind } of operation.fields) {
    const groups: Reference[][] = [];
    for (const file of files) {
      if (file.field !== name) continue;
      groups[file.group] ??= [];
      groups[file.group]?.push({ upload: sender.uploadOf(file), name: file.filename });
    }
    if (groups.length > 0) document[name] = kind === 'archive' ? groups[0]?.[0] : groups;
  }
  const bytes = Buffer.from(JSON.stringify(document));
  return {
    contentType: mediaTypes.json,
    length: bytes.length,
    async *stream(onBytes) {
      yield bytes;
      onBytes(bytes.length);
    },
  };
}

/** How often uploads are sent again to a server that has lost them, because its disk is short. */
const maxRounds = 3;

/**
 * Sends a submission (docs/http.md, Submission), as a form or after the uploads that it names. If the server goes away before it has
 * answered, the submission is sent again with the same `Idempotency-Key`, so that it never becomes two jobs, for as long as the
 * connection has patience. A server that was never reached is not waited for; one that is busy is.
 * @param key the `Idempotency-Key`: a server that has a job of this key answers with that job
 * @param isRepeatable whether it may be sent again when all of it was sent and the answer is missing
 * @throws HttpError for a refusal; TransportError if the patience is over; ClientError for a file that changed
 */
export async function submit(
  connection: Connection,
  submission: Submission,
  staged: Staged,
  reporter: Reporter,
  key = uniqueText(),
  isRepeatable = true,
): Promise<JobEnvelope> {
  const how = { key, isRepeatable };
  if (staged.uploads === null)
    return sendBody(connection, submission, new Multipart(staged.fields, staged.parts), reporter, how);
  const sender = new FileSender(connection, staged.uploads, reporter);
  let missing: readonly string[] = [];
  for (let round = 1; ; round += 1) {
    await sender.send(missing);
    try {
      const body = jsonBody(submission, staged, staged.uploads, sender);
      return await sendBody(connection, submission, body, reporter, how);
    } catch (error) {
      if (!(error instanceof HttpError) || error.missing.length === 0 || round >= maxRounds) throw error;
      missing = error.missing;
    }
  }
}

async function sendBody(
  connection: Connection,
  submission: Submission,
  body: Body,
  reporter: Reporter,
  { key, isRepeatable }: { readonly key: string; readonly isRepeatable: boolean },
): Promise<JobEnvelope> {
  const { server, signal, readTimeout } = connection;
  const path = submitPath(submission.app, submission.operation.segment);
  const next = 'run the command again once the server can be reached, or raise --patience';
  const attempts = new Attempts(connection, reporter, { size: body.length, isRepeatable, next });
  const onAnswerWait = () => {
    reporter.waiting('Interrupted: waiting for the id of the job, to kill it');
    if (signal?.reason instanceof Interrupted) signal.reason.leaves = mayBeAccepted(connection);
  };
  let farthest = 0;
  for (;;) {
    const watch = new RequestWatch(body.length, readTimeout, signal, server, onAnswerWait);
    let sent = 0;
    const onBytes = (count: number) => {
      // The body may hand out one more piece after the request has ended.
      if (watch.isDone) return;
      watch.moved(count);
      if (sent === 0 && !attempts.isFirst)
        reporter.note(`${server} takes the upload${farthest > 0 ? ', which starts over' : ''}`);
      if (count > farthest) attempts.patience.renew();
      sent = count;
      if (body instanceof Multipart) reporter.progress('Uploading', sent, body.length);
      // The last bytes are still on their way, and the server checks the whole submission before it answers.
      if (sent === body.length) reporter.waiting('Waiting for the server to accept the job');
    };
    const ready = attempts.isFirst ? undefined : () => pause(holdBack, watch.signal);
    try {
      return await post(connection, path, key, body, body.stream(onBytes, ready), watch.signal).finally(
        () => {
          watch.done();
          reporter.waiting(null);
        },
      );
    } catch (error) {
      const reached = Math.max(farthest, sent);
      // A busy server has refused what it took.
      if (!isBusy(error)) farthest = reached;
      attempts.count(sent);
      await attempts.after(error, reached === body.length);
    }
  }
}

/** Sends a submission once. */
async function post(
  connection: Connection,
  path: string,
  key: string,
  { contentType, length }: Body,
  stream: AsyncIterable<Buffer>,
  signal: AbortSignal,
): Promise<JobEnvelope> {
  const answer = await submissionAnswer();
  const reply = await connection.send(path, {
    method: 'POST',
    headers: {
      'content-type': contentType,
      'content-length': String(length),
      [parameters.idempotencyKey.name]: key,
    },
    body: stream,
    headTimeout: 0,
    signal,
  });
  const { job_id, accepted_options } = await connection.read(reply, path, answer, signal);
  return jobEnvelope(job_id, accepted_options);
}

/** Names of the options that were sent and that the server did not say it read (docs/http.md, Submission). */
export function unacknowledged(submission: Submission, envelope: JobEnvelope): string[] {
  return Object.keys(submission.options).filter((name) => !envelope.accepted_options.includes(name));
}
