import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Cli } from './cli.js';
import { Screen } from './screen.js';
import { until } from './until.mjs';

const bin = fileURLToPath(new URL('../../bin/run.js', import.meta.url));

export interface TerminalOptions {
  readonly columns?: number;
  readonly rows?: number;
  readonly env?: NodeJS.ProcessEnv;
  /** What its output goes through, such as `| cat`. */
  readonly pipe?: string;
  /** Another program of Node's than ours. */
  readonly program?: string;
}

let terminals = 0;

/** A command at a pseudo-terminal of its own: what it writes, what the terminal shows, and the keyboard. */
export class Terminal implements AsyncDisposable {
  readonly screen: Screen;
  /** All that the terminal was sent. */
  written = '';
  readonly #child;
  readonly #name: string;
  readonly #ended: Promise<number | null>;

  constructor(
    cli: Cli,
    args: readonly string[],
    { columns = 120, rows = 24, env = {}, pipe = '', program = bin }: TerminalOptions = {},
  ) {
    terminals += 1;
    this.#name = path.join(cli.directory, `.terminal-${terminals}`);
    this.screen = new Screen(columns);
    const command = [process.execPath, program, ...args].map((word) => `'${word}'`).join(' ');
    const setUp = `stty cols ${columns} rows ${rows}; tty > '${this.#name}'`;
    this.#child = spawn('script', ['-qec', `${setUp}; exec ${command} ${pipe}`, '/dev/null'], {
      cwd: cli.directory,
      env: {
        PATH: process.env.PATH,
        HOME: cli.home,
        XDG_CONFIG_HOME: cli.home,
        TERM: 'xterm-256color',
        LANG: 'C.UTF-8',
        ...env,
      },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#child.stdin.on('error', () => {});
    this.#child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.written += text;
      this.screen.write(text);
    });
    this.#ended = once(this.#child, 'close').then(([code]) => code);
  }

  get rows(): string[] {
    return this.screen.rows;
  }

  /** Waits until a row of the screen is like this. */
  async shows(row: RegExp): Promise<void> {
    await until(`the terminal shows ${row}`, () => this.rows.some((each) => row.test(each))).catch(
      (cause) => {
        throw new Error(`${cause.message}; it shows:\n${this.rows.join('\n')}`);
      },
    );
  }

  /** Waits until it is sent something like this, behind what it was sent before. */
  async sends(before: number, text: RegExp): Promise<void> {
    await until(`the terminal is sent ${text}`, () => text.test(this.written.slice(before)));
  }

  /** Presses keys. */
  type(keys: string): void {
    this.#child.stdin.write(keys);
  }

  /** Makes it wider or narrower, as a person does with a window. */
  resize(columns: number): void {
    this.screen.resize(columns);
    execFileSync('stty', ['-F', readFileSync(this.#name, 'utf8').trim(), 'cols', String(columns)]);
  }

  /** The exit code of the command. */
  ended(): Promise<number | null> {
    return this.#ended;
  }

  /** Closes the terminal: a command that a failed test left in it ends. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGTERM');
    await this.#ended;
  }
}
