import { isFinal } from '../contract/job.js';
import { type LogEvent, LogStreamParser } from '../contract/log-stream.js';
import { logsPath } from '../contract/routes.js';
import { job } from './api.js';
import { backoff, pause } from './backoff.js';
import type { Connection } from './connection.js';
import { isTransient, TransportError } from './errors.js';
import { refusal } from './reply.js';

/**
 * A stream that is silent for this long, in seconds, is taken to be dead: the service sends a comment after every
 * 15 s of silence (spec.md, Events), so four of them are missing.
 */
const silence = 60;

export interface FollowOptions {
  /** Lines to skip. */
  readonly since?: number | undefined;
  /** Keeps trying even where the first connection fails: the job is known to exist. */
  readonly persistent?: boolean | undefined;
  /** How long to keep trying after a drop without one sign of life, in seconds. */
  readonly patience: number;
  /** Called once for each drop, however often it takes to connect again. */
  readonly onDrop?: ((error: Error) => void) | undefined;
}

async function* readOnce(
  connection: Connection,
  jobId: string,
  since: number,
  onSign: () => void,
): AsyncGenerator<LogEvent> {
  const reply = await connection.send(logsPath(jobId), {
    query: `?since=${since}`,
    headers: { accept: 'text/event-stream' },
    bodyTimeout: silence,
  });
  if (reply.statusCode !== 200) throw refusal(reply, await connection.text(reply));
  const parser = new LogStreamParser();
  const decoder = new TextDecoder();
  try {
    for await (const chunk of reply.body as AsyncIterable<Buffer>) {
      onSign();
      yield* parser.push(decoder.decode(chunk, { stream: true }));
    }
  } catch (error) {
    throw connection.explain(error);
  }
}

/** The end of a job whose server neither numbers lines nor replays them: from its state. */
async function endByState(connection: Connection, jobId: string): Promise<LogEvent | null> {
  const view = await job(connection, jobId);
  if (!isFinal(view.status)) return null;
  if (view.status === 'done') return { kind: 'done' };
  return { kind: 'error', message: view.error ?? `the job is ${view.status}` };
}

/**
 * A job's log, line by line, up to and with its terminal marker (spec.md, Events). A stream that drops is opened
 * again behind the last line that was read, so that no line is lost and none comes twice.
 * @throws HttpError for a job that is not there; TransportError when patience is at its end
 */
export async function* followLog(
  connection: Connection,
  jobId: string,
  options: FollowOptions,
): AsyncGenerator<LogEvent> {
  let position = options.since ?? 0;
  let numbered = false;
  let opened = options.persistent ?? false;
  let failures = 0;
  let droppedAt: number | null = null;
  const onSign = () => {
    opened = true;
    droppedAt = null;
  };
  for (;;) {
    let drop: Error;
    try {
      for await (const event of readOnce(connection, jobId, position, onSign)) {
        failures = 0;
        if (event.kind === 'line' && event.id !== null) {
          numbered = true;
          if (event.id <= position) continue;
          position = event.id;
        }
        yield event;
        if (event.kind !== 'line') return;
      }
      const end = numbered ? null : await endByState(connection, jobId);
      if (end) {
        yield end;
        return;
      }
      drop = new TransportError('broken', `The log stream of job ${jobId} ended early`);
    } catch (error) {
      if (!opened || !isTransient(error)) throw error;
      drop = error as Error;
    }
    if (droppedAt === null) options.onDrop?.(drop);
    droppedAt ??= performance.now();
    if (performance.now() - droppedAt > options.patience * 1000) throw drop;
    await pause(backoff(failures), connection.signal);
    failures += 1;
  }
}
