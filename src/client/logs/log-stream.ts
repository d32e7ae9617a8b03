import { keepAliveInterval, logsPath, mediaTypes, parameters, quoteName } from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';
import { AnswerError, type Connection, header, type Patience, type Reply } from '../connection/index.js';
import { isServerFailure, isTransient, TransportError } from '../errors.js';
import {
  checkedEnd,
  endByState,
  explainMute,
  followText,
  isTaken,
  muteStreams,
  NoLogText,
  readAlready,
} from './log-text.js';
import { type LogEvent, LogStreamParser } from './stream-parser.js';

/**
 * Seconds of silence after which a stream is considered dead: four of the service's keep-alive comments are missing
 * (docs/http.md, Log).
 */
const silence = 4 * keepAliveInterval;

interface FollowOptions {
  /** Lines to skip. */
  readonly since?: number | undefined;
  /**
   * Alternatively, the number of last lines to begin with. A server that does not support this begins with the first
   * line.
   */
  readonly tail?: number | undefined;
  /** Whether to keep trying if the first connection fails, because the job is known to exist. */
  readonly persistent?: boolean | undefined;
  /**
   * How long to keep retrying after a drop. Renewed by a new line and by a stream that lasts, but not by a server whose streams
   * break at once.
   */
  readonly patience: Patience;
}

/** Minimum duration, in milliseconds, of a stream that does not count as a failed attempt. */
const lasting = 10_000;

/** How far a log has been read. */
class Progress {
  /** Number of the last line that was read, if the server numbers lines; a reconnect continues after it. */
  position: number;
  /** Whether the server numbers lines. */
  isNumbered = false;
  #last = 0;
  #openedAt = 0;

  constructor(
    since: number,
    private readonly patience: Patience,
  ) {
    this.position = since;
  }

  opens(): void {
    this.#last = 0;
    this.#openedAt = monotonicTime();
  }

  /** Whether a line is new. A number that does not exceed the previous one of the same stream is ignored. */
  isNew(id: number | null): boolean {
    if (id === null || id <= this.#last) return true;
    this.isNumbered = true;
    this.#last = id;
    if (id <= this.position) return false;
    this.position = id;
    this.patience.renew();
    return true;
  }

  /** Called when anything arrives, including a keep-alive. */
  lives(): void {
    if (monotonicTime() - this.#openedAt > lasting) this.patience.renew();
  }
}

/** What was received instead of a readable log, as a phrase; null if it is a readable log. */
function insteadOfLog(reply: Reply): string | null {
  const type = header(reply, 'content-type') ?? '';
  if (/html|json|zip/i.test(type)) return `${quoteName(type)}, not with a log`;
  const coding = header(reply, 'content-encoding') ?? 'identity';
  return coding === 'identity' ? null : `a log that is encoded as ${quoteName(coding)}`;
}

async function* readOnce(
  connection: Connection,
  jobId: string,
  from: string,
  { onOpen, onSign }: { onOpen: () => void; onSign: () => void },
): AsyncGenerator<LogEvent> {
  const path = logsPath(jobId);
  const reply = await connection.send(path, {
    query: `?${from}&${parameters.redraws.name}=1`,
    headers: { accept: mediaTypes.events },
    bodyTimeout: silence,
  });
  if (reply.statusCode !== 200) throw await connection.refused(reply, path);
  const other = insteadOfLog(reply);
  if (other !== null) {
    await reply.body.dump().catch(() => null);
    throw new AnswerError(connection.server, `answered ${path} with ${other}`);
  }
  onOpen();
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

/**
 * A job's log, line by line, up to and including its end marker (docs/http.md, Log). A stream that drops is reopened after the
 * last line read, so that no line is lost or repeated. If another reader has the stream, the rest of the log is read as text.
 * @throws HttpError for an unknown job; the error of the last attempt when the patience runs out
 */
export async function* followLog(
  connection: Connection,
  jobId: string,
  options: FollowOptions,
): AsyncGenerator<LogEvent> {
  const progress = new Progress(options.since ?? 0, options.patience);
  let opened = options.persistent ?? false;
  /** Number of consecutive streams that were cut before anything arrived. */
  let mute = 0;
  const signs = {
    onOpen: () => {
      opened = true;
      mute += 1;
      options.patience.answered();
    },
    onSign: () => {
      mute = 0;
      progress.lives();
    },
  };
  /** The query for the beginning of the next stream. */
  const from = (): string =>
    options.tail === undefined || progress.isNumbered
      ? `${parameters.since.name}=${progress.position}`
      : `${parameters.tail.name}=${options.tail}`;
  for (;;) {
    let drop: Error;
    progress.opens();
    try {
      for await (const event of readOnce(connection, jobId, from(), signs)) {
        if (event.kind === 'line' && !progress.isNew(event.id)) continue;
        const isDoubtful = event.kind === 'done' && !progress.isNumbered;
        yield (isDoubtful ? await checkedEnd(connection, jobId) : null) ?? event;
        if (event.kind !== 'line') return;
      }
      const end = progress.isNumbered ? null : await endByState(connection, jobId);
      if (end) {
        yield end;
        return;
      }
      drop = new TransportError('broken', `The log stream of job ${jobId} ended early`);
    } catch (caught) {
      let error = caught;
      if (isTaken(error)) {
        const tail = progress.isNumbered ? undefined : options.tail;
        try {
          yield* followText(connection, jobId, {
            since: progress.position,
            tail,
            patience: options.patience,
          });
          return;
        } catch (cause) {
          if (!(cause instanceof NoLogText)) throw cause;
        }
        error = readAlready(connection, jobId);
        if (!opened) throw error;
      } else if (!opened || !(isTransient(error) || isServerFailure(error))) {
        throw error;
      }
      // A failure of the server is not a failure of the job, which keeps running.
      drop = error as Error;
      const told = mute < muteStreams || progress.isNumbered ? null : await explainMute(connection, jobId);
      if (told instanceof Error) {
        if (!options.persistent) throw told;
        drop = told;
      } else if (told) {
        yield told;
        return;
      }
    }
    await options.patience.after(drop);
  }
}
