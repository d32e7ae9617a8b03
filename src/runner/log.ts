import { closeSync, constants, fstatSync, fsyncSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { redrawEnd, servicePrefix } from '../contract/log-stream.js';
import { counted } from '../contract/text.js';
import { faultWithoutPath } from '../files/errors.js';
import { appendWhole } from '../files/lines.js';
import { openOwnFile } from '../files/own-file.js';

/** Maximum number of characters in a line of the log. A longer line continues on the next one. */
const maxLineLength = 64 * 1024;

/** A line of a program's output. A redraw is a line that ends with a carriage return, as progress bars write it. */
interface OutputLine {
  readonly text: string;
  readonly isRedraw: boolean;
}

/**
 * Splits a program's output into lines. A line ends at `\n`, `\r\n` or `\r` (docs/http.md, Log); bytes that are
 * not UTF-8 become U+FFFD. Holds at most one line in memory.
 */
export class LineSplitter {
  readonly #decoder = new TextDecoder();
  #rest = '';
  /**
   * Whether the last chunk ended with `\r`. Its line is held back, because a `\n` at the start of the next chunk would belong to
   * it. After a pause the line counts as a redraw, and a `\n` that follows is ignored.
   */
  #return: 'none' | 'held' | 'passed' = 'none';

  push(chunk: Uint8Array): OutputLine[] {
    return this.#cut(this.#decoder.decode(chunk, { stream: true }));
  }

  /** Releases the line held back in case a redrawn one replaces it. Called when the command has printed nothing for a while. */
  pause(): OutputLine[] {
    if (this.#return !== 'held') return [];
    const lines: OutputLine[] = [];
    this.#complete('', true, lines);
    this.#return = 'passed';
    return lines;
  }

  /** The lines that are left when the output has ended. */
  end(): OutputLine[] {
    const lines = [...this.#cut(this.#decoder.decode()), ...this.pause()];
    if (this.#rest !== '') lines.push({ text: this.#rest, isRedraw: false });
    this.#rest = '';
    return lines;
  }

  #cut(decoded: string): OutputLine[] {
    if (decoded === '') return [];
    const lines: OutputLine[] = [];
    const isEnded = this.#return !== 'none' && decoded.startsWith('\n');
    if (this.#return === 'held') this.#complete('', !isEnded, lines);
    this.#return = decoded.endsWith('\r') ? 'held' : 'none';
    const text = decoded.slice(isEnded ? 1 : 0, this.#return === 'held' ? -1 : undefined);
    const ends = /\r\n|\n|\r/g;
    let start = 0;
    for (let end = ends.exec(text); end !== null; end = ends.exec(text)) {
      this.#complete(text.slice(start, end.index), end[0] === '\r', lines);
      start = ends.lastIndex;
    }
    this.#rest += text.slice(start);
    this.#rest = this.#wrap(this.#rest, lines);
    return lines;
  }

  #complete(tail: string, isRedraw: boolean, lines: OutputLine[]): void {
    const text = this.#wrap(this.#rest + tail, lines);
    this.#rest = '';
    lines.push({ text, isRedraw });
  }

  /** Outputs the parts of a text that exceed the maximum line length; returns the rest. */
  #wrap(text: string, lines: OutputLine[]): string {
    let start = 0;
    while (text.length - start > maxLineLength) {
      let end = start + maxLineLength;
      // Does not split a surrogate pair, which is one character.
      if ((text.charCodeAt(end - 1) & 0xfc00) === 0xd800) end -= 1;
      lines.push({ text: text.slice(start, end), isRedraw: false });
      start = end;
    }
    return start === 0 ? text : text.slice(start);
  }
}

/** Matches what is invisible at the start of a line: colours, other control sequences, and zero-width characters. */
const unseen = /^(?:\p{Cc}\[[\d;:?]*[ -/]*[@-~]|[\p{Cc}\p{Cf}])*$/u;

/**
 * A line of the command in the form in which it is logged. A line that looks like one of the service gets a leading space, so
 * that only the service's lines begin with its prefix.
 */
function asCommandLine(line: OutputLine): OutputLine {
  const at = line.text.indexOf(servicePrefix.trimEnd());
  return at >= 0 && unseen.test(line.text.slice(0, at)) ? { ...line, text: ` ${line.text}` } : line;
}

/** Number of redraws before their rate is limited, so that a program with few redraws loses none. */
const burst = 1000;
/** Redraws a second after that: more than a person can follow. */
const perSecond = 20;

/**
 * Matches a text that moves the cursor up, as nested progress bars do. Such a text must be kept, or the next redraw appears in
 * the wrong row.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the sequence that moves the cursor
const moves = /\u001b\[\d{0,2}A/;

/**
 * Limits the rate of redraws, so that a progress bar that is drawn ten thousand times a second does not fill the log. The latest
 * redraw is held back, and is written before the next line or when the rate allows it.
 */
class RedrawLimiter {
  #tokens = burst;
  #refilledAt = performance.now();
  /** The redraw that is held back, as the log has it. */
  #held: string | null = null;

  /** The lines to write to the log now, in order; redraws keep their carriage return. */
  pass(lines: readonly OutputLine[]): string[] {
    const passed: string[] = [];
    for (const { text, isRedraw } of lines) {
      const line = isRedraw ? text + redrawEnd : text;
      const isAlone = isRedraw && !moves.test(text);
      if (isAlone && !this.#take()) {
        this.#held = line;
        continue;
      }
      // If this is a redraw of the same row, it replaces the one that is held back; otherwise both are written.
      if (this.#held !== null && !isAlone) passed.push(this.#held);
      this.#held = null;
      passed.push(line);
    }
    return passed;
  }

  /** Releases the redraw that is held back, if there is one. Called in a pause, and at the end of the output. */
  flush(): string[] {
    const held = this.#held;
    this.#held = null;
    return held === null ? [] : [held];
  }

  #take(): boolean {
    const now = performance.now();
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#refilledAt) / 1000) * perSecond);
    this.#refilledAt = now;
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}

/** Number of characters that are kept from the end of the output beyond the limit, because the error is usually there. */
const tailLength = 64 * 1024;

/** Number of characters in a line, including its line feed. */
const sizeInTail = (line: string): number => line.length + 1;

/**
 * The log of a job, limited in size: it has lines up to `maxBytes` and, once the output has ended, a note on how much was left
 * out, followed by the last lines. Writes are synchronous, so a program that prints faster than the disk writes has to wait.
 * While the disk is full, lines are lost, and the command continues; once there is space again, a note replaces them.
 */
export class LogFile {
  readonly #fd: number;
  #size: number;
  #omitted = 0;
  #tail: string[] = [];
  #tailLength = 0;
  /** Number of lost lines that no note in the log counts. */
  lostLines = 0;
  #fault = '';

  /** Opens the log. @throws NotOurFile, or the system's error */
  constructor(
    readonly path: string,
    readonly maxBytes: number,
  ) {
    this.#fd = openOwnFile(path, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT);
    this.#size = fstatSync(this.#fd).size;
  }

  append(lines: readonly string[]): void {
    if (lines.length === 0) return;
    if (this.#omitted === 0) {
      const bytes = Buffer.from(`${lines.join('\n')}\n`);
      if (this.#size + bytes.length <= this.maxBytes) {
        this.#write(bytes, lines.length);
        return;
      }
    }
    this.#keepTail(lines);
  }

  /** Writes what is left, and syncs the file so that it survives a power cut. */
  close(): void {
    try {
      if (this.#omitted > 0) {
        const omitted = this.#omitted - this.#tail.length;
        const note = `${servicePrefix}Log limit of ${this.maxBytes} bytes reached: ${omitted} lines left out here`;
        this.#write(Buffer.from(`${[note, ...this.#tail].join('\n')}\n`), this.#tail.length);
      }
      this.#write(Buffer.alloc(0), 0);
      fsyncSync(this.#fd);
    } catch {
      // Ignored: the job's end must be recorded even if the last bytes of its log are lost.
    } finally {
      closeSync(this.#fd);
    }
  }

  #keepTail(lines: readonly string[]): void {
    for (const line of lines) {
      this.#omitted += 1;
      this.#tail.push(line);
      this.#tailLength += sizeInTail(line);
    }
    let drop = 0;
    while (this.#tailLength > tailLength && drop < this.#tail.length - 1) {
      this.#tailLength -= sizeInTail(this.#tail[drop] ?? '');
      drop += 1;
    }
    if (drop > 0) this.#tail = this.#tail.slice(drop);
  }

  #write(bytes: Buffer, lines: number): void {
    const note = this.lostLines === 0 ? '' : this.#lostNote();
    const whole = note === '' ? bytes : Buffer.concat([Buffer.from(note), bytes]);
    try {
      appendWhole(this.#fd, whole);
      this.#size += whole.length;
      this.lostLines = 0;
    } catch (cause) {
      this.lostLines += lines;
      this.#fault = faultWithoutPath(cause);
    }
  }

  #lostNote(): string {
    const lines = counted(this.lostLines, 'line');
    return `${servicePrefix}${lines} could not be written here: ${this.#fault}\n`;
  }
}

/** Milliseconds after which a redraw that is held back is written, and a lone carriage return ends a line. */
const redrawPause = 250;

/** Writes a command's output to its log, line by line. */
export class OutputLog {
  readonly #lines = new LineSplitter();
  readonly #redraws = new RedrawLimiter();
  #pause: NodeJS.Timeout | undefined;

  constructor(private readonly log: LogFile) {}

  push(chunk: Buffer): void {
    this.#append(this.#lines.push(chunk));
    this.#pause ??= setTimeout(() => {
      this.#pause = undefined;
      this.#append(this.#lines.pause());
      this.log.append(this.#redraws.flush());
    }, redrawPause).unref();
  }

  /** Writes what was held back, at the end of the output. */
  end(): void {
    clearTimeout(this.#pause);
    this.#append(this.#lines.end());
    this.log.append(this.#redraws.flush());
  }

  #append(lines: readonly OutputLine[]): void {
    this.log.append(this.#redraws.pass(lines.map(asCommandLine)));
  }
}

/** Copies a command's output to its log until the last process has closed the pipe. */
export function copyOutput(reader: Readable, log: LogFile): Promise<void> {
  const output = new OutputLog(log);
  reader.on('data', (chunk: Buffer) => output.push(chunk));
  // A pipe that fails is treated as closed.
  reader.on('error', () => reader.destroy());
  return new Promise((resolve) => {
    reader.once('close', () => {
      output.end();
      resolve();
    });
  });
}
