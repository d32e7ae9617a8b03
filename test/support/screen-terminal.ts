import { clearLine, cursorTo, type Direction, moveCursor } from 'node:readline';
import { PassThrough, Writable } from 'node:stream';
import type { Cli } from './cli.js';
import type { TerminalOptions } from './terminal.js';
import { WatchedScreen } from './watched-screen.js';

/** The keys that a terminal turns into signals, and how it shows them. */
const signals = { '\u0003': ['SIGINT', '^C'], '\u001c': ['SIGQUIT', '^\\'] } as const;

const isSignal = (key: string): key is keyof typeof signals => Object.hasOwn(signals, key);

/** An output stream that is a terminal, with the functions of `tty.WriteStream` that draw lines. */
class ScreenStream extends Writable {
  readonly isTTY = true;

  constructor(
    public columns: number,
    readonly rows: number,
    private readonly show: (text: string) => void,
  ) {
    super({ decodeStrings: false, defaultEncoding: 'utf8' });
  }

  override _write(chunk: string | Buffer, _: string, done: () => void): void {
    // As a terminal's line discipline does.
    this.show(chunk.toString().replaceAll('\n', '\r\n'));
    done();
  }

  cursorTo(x: number): boolean {
    return cursorTo(this, x);
  }

  moveCursor(dx: number, dy: number): boolean {
    return moveCursor(this, dx, dy);
  }

  clearLine(direction: Direction): boolean {
    return clearLine(this, direction);
  }
}

/**
 * A command in the process of the test whose streams are a screen with a keyboard: shows what the command draws, without the
 * second that a process at a pseudo-terminal takes. Ctrl-C and Ctrl-\ are told to this process; a second one would end it.
 */
export class ScreenTerminal extends WatchedScreen implements AsyncDisposable {
  readonly #stream: ScreenStream;
  /** Whether keys are passed on as they are and not shown. */
  #isRaw = false;
  readonly #stdin = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode: (isRaw: boolean) => {
      this.#isRaw = isRaw;
    },
  });
  readonly #ended: Promise<number>;
  #isRunning = true;

  constructor(
    cli: Cli,
    args: readonly string[],
    { columns = 120, rows = 24, env = {} }: Pick<TerminalOptions, 'columns' | 'rows' | 'env'> = {},
  ) {
    super(columns);
    this.#stream = new ScreenStream(columns, rows, (text) => this.show(text));
    // One stream for both, so that what goes to stdout passes the line that is drawn on stderr.
    const streams = { stdin: this.#stdin, stdout: this.#stream, stderr: this.#stream };
    const environment = { TERM: 'xterm-256color', LANG: 'C.UTF-8', ...env };
    this.#ended = cli.runOn(streams, args, environment).finally(() => {
      this.#isRunning = false;
    });
    // Whoever waits for the end gets the error.
    this.#ended.catch(() => {});
  }

  /** Whether the command has left the keyboard in raw mode. */
  get isRaw(): boolean {
    return this.#isRaw;
  }

  /** Presses keys, which are shown as a terminal does. */
  type(keys: string): void {
    if (this.#isRaw) {
      this.#stdin.write(keys);
      return;
    }
    for (const key of keys) {
      if (!isSignal(key)) {
        this.show(key);
        this.#stdin.write(key);
        continue;
      }
      const [signal, shown] = signals[key];
      this.show(shown);
      process.emit(signal, signal);
    }
  }

  /** Changes its width, as when somebody resizes the window. */
  resize(columns: number): void {
    this.screen.resize(columns);
    this.#stream.columns = columns;
    this.#stream.emit('resize');
  }

  /** The exit code of the command. */
  ended(): Promise<number> {
    return this.#ended;
  }

  /** Ends a command that a failed test left. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isRunning) process.emit('SIGTERM', 'SIGTERM');
    await this.#ended.catch(() => {});
  }
}
