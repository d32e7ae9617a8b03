/** Most bytes of an answer without a newline. */
export const longestAnswer = 64 * 1024;

/** What a worker says: that the app is loaded, or how a job ended. */
export type Answer = { readonly kind: 'ready' } | JobAnswer;

/** How a job ended, and whether the worker ends with it. */
export interface JobAnswer {
  readonly kind: 'done';
  readonly job: string;
  readonly exitCode: number;
  readonly isLast: boolean;
}

/** A worker said what it must not; the message continues `The app`. */
export class WrongAnswer extends Error {}

function readAnswer(line: string): Answer {
  let json: unknown;
  try {
    json = JSON.parse(line);
  } catch {
    throw new WrongAnswer('answered with a line that is not JSON');
  }
  const { ready, job, exit_code: code, last } = Object(json) as Record<string, unknown>;
  if (ready === true) return { kind: 'ready' };
  if (typeof job !== 'string') throw new WrongAnswer('answered with a line that names no job');
  if (typeof code !== 'number' || !Number.isInteger(code) || code < 0 || code > 255) {
    throw new WrongAnswer('answered with an exit code that is not a whole number from 0 to 255');
  }
  return { kind: 'done', job, exitCode: code, isLast: last === true };
}

/** Cuts what a worker writes into answers. */
export class AnswerReader {
  #rest = Buffer.alloc(0);

  /** Whether an answer has begun that is not complete. */
  get hasBegun(): boolean {
    return this.#rest.length > 0;
  }

  /**
   * The answers that a piece completes, each when it is asked for.
   * @throws WrongAnswer
   */
  *push(chunk: Buffer): Generator<Answer, void> {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    for (let end = this.#rest.indexOf(10); end >= 0; end = this.#rest.indexOf(10)) {
      const line = this.#rest.subarray(0, end);
      this.#rest = this.#rest.subarray(end + 1);
      if (line.length > longestAnswer) throw new WrongAnswer(tooLong);
      yield readAnswer(line.toString());
    }
    if (this.#rest.length > longestAnswer) throw new WrongAnswer(tooLong);
  }
}

const tooLong = `answered with a line of more than ${longestAnswer / 1024} KiB`;
