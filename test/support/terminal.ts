import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Cli } from './cli.js';
import { nodeFlags } from './node-flags.mjs';
import { WatchedScreen } from './watched-screen.js';

const bin = fileURLToPath(new URL('../../bin/run.js', import.meta.url));

export interface TerminalOptions {
  readonly columns?: number;
  readonly rows?: number;
  readonly env?: NodeJS.ProcessEnv;
  /** What its output goes through, such as `| cat`. */
  readonly pipe?: string;
  /** A Node program to run instead of ours. */
  readonly program?: string;
}

let terminals = 0;

/** A command in its own process on a real pseudo-terminal, with a keyboard. */
export class Terminal extends WatchedScreen implements AsyncDisposable {
  readonly #child;
  readonly #name: string;
  readonly #ended: Promise<number | null>;

  constructor(
    cli: Cli,
    args: readonly string[],
    { columns = 120, rows = 24, env = {}, pipe = '', program = bin }: TerminalOptions = {},
  ) {
    super(columns);
    terminals += 1;
    this.#name = path.join(cli.directory, `.terminal-${terminals}`);
    const command = [process.execPath, ...nodeFlags, program, ...args].map((word) => `'${word}'`).join(' ');
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
    this.#child.stdout.setEncoding('utf8').on('data', (text: string) => this.show(text));
    this.#ended = once(this.#child, 'close').then(([code]) => code);
  }

  /** Presses keys. */
  type(keys: string): void {
    this.#child.stdin.write(keys);
  }

  /** Changes its width, as when somebody resizes the window. */
  resize(columns: number): void {
    this.screen.resize(columns);
    execFileSync('stty', ['-F', readFileSync(this.#name, 'utf8').trim(), 'cols', String(columns)]);
  }

  /** The exit code of the command. */
  ended(): Promise<number | null> {
    return this.#ended;
  }

  /** Closes the terminal, which ends a command that a failed test left running. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGTERM');
    await this.#ended;
  }
}
