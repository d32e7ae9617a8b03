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

/** A file in a JSON submission (docs/http.md, Submission). */
interface Reference {
  readonly upload: string;
  readonly name: string;
}

/** A submission that refers to uploads: the fields as in a form, and the files by the names of their uploads. */
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

/** How many times uploads are sent again to a server that lost them for lack of disk space. */
const maxRounds = 3;

/**
 * Sends a submission (docs/http.md, Submission), as a form or after the uploads that it refers to. If the server becomes
 * unreachable before it has answered, the submission is sent again with the same `Idempotency-Key`, so that it never becomes two
 * jobs, for as long as the connection has patience. A server that was never reached is not waited for, but a busy server is.
 * @param key the `Idempotency-Key`: a server that has a job with this key answers with that job
 * @param isRepeatable whether the submission may be sent again if it was sent completely but the answer is missing
 * @throws HttpError for a refusal; TransportError if the patience runs out; ClientError for a file that changed
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
      // The body may produce one more piece after the request has ended.
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
      // A busy server has discarded what it received.
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

/** Names of options that were sent, but that the server did not report as read (docs/http.md, Submission). */
export function unacknowledged(submission: Submission, envelope: JobEnvelope): string[] {
  return Object.keys(submission.options).filter((name) => !envelope.accepted_options.includes(name));
}
