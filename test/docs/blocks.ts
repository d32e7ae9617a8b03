import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { shareCode } from '../support/code-cache.js';
import { nodeFlags } from '../support/node-flags.mjs';
import { freePort } from '../support/ports.mjs';
import { addressIn, hasEnded, serverEnvironment } from '../support/serve.mjs';
import { temporary } from '../support/temporary.js';

export const repository = fileURLToPath(new URL('../..', import.meta.url));

/** A block of commands on a page of the documentation. */
export interface Block {
  readonly line: number;
  /** The last heading before it. */
  readonly heading: string;
  readonly hasOutput: boolean;
  readonly text: string;
  /** Why it cannot be run here, as the comment right before it says; null if it can. */
  readonly reason: string | null;
}

const fence = /^([ ]*)```(console|sh)\n(.*?)^\1```$/gms;

export function blocksOf(page: string): Block[] {
  return [...page.matchAll(fence)].map(({ 1: indent = '', 2: language, 3: text = '', index }) => {
    const before = page.slice(0, index);
    return {
      line: before.split('\n').length,
      heading: [...before.matchAll(/^#+ (.*)$/gm)].at(-1)?.[1] ?? '',
      hasOutput: language === 'console',
      text: text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
      reason: /<!-- not run: ([^>]+) -->\n$/.exec(before)?.[1] ?? null,
    };
  });
}

interface Step {
  readonly command: string;
  /** What the block shows as its output; null if it shows none. */
  readonly output: string | null;
}

/** Whether these lines are whole commands, and no here-document or quotation is still open. */
const isWhole = (text: string): boolean =>
  !text.endsWith('\\') && spawnSync('bash', ['-n'], { input: text }).stderr.length === 0;

/** The commands of a block, each of which may have several lines. */
function stepsOf({ text, hasOutput }: Block): Step[] {
  if (hasOutput)
    return text
      .split(/^\$ /m)
      .slice(1)
      .map((each) => {
        const [, command = '', output = ''] = /^(.*(?:\n> .*)*)\n?(.*)$/s.exec(each) ?? [];
        const end = command.indexOf('\n');
        return end < 0
          ? { command, output }
          : { command: command.slice(0, end), output: command.slice(end + 1) + output };
      });
  const steps: Step[] = [];
  let open = '';
  for (const line of text.split('\n')) {
    open += line;
    if (open.trim() !== '' && isWhole(open)) {
      steps.push({ command: open, output: null });
      open = '';
    } else if (open !== '') open += '\n';
  }
  if (open.trim() !== '') throw new Error(`These lines are no whole command: ${open}`);
  return steps;
}

/** Without what differs from run to run: ids, times, sizes, dates, paths, and whether the machine has a sandbox. */
const withoutFigures = (text: string): string =>
  text
    .replaceAll(/\b[0-9a-f]{12}\b/g, 'ID')
    .replaceAll(/\b\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?/g, 'DATE')
    .replaceAll(/\b[\d.]+ (s|ms|min|h)\b/g, 'TIME')
    .replaceAll(/\b[\d.]+ (B|KiB|MiB|GiB)\b/g, 'SIZE')
    .replaceAll(/\b\d+ x \d+ x /g, 'SIZE x ')
    .replaceAll(/(?<![\w.])\/[\w./-]+/g, 'PATH')
    .replaceAll(', in a sandbox without network', '')
    .replaceAll(/ {2,}/g, '  ')
    .trim();

/** A pattern for what a page shows, in which `[...]` stands for any text. */
const patternOf = (shown: string): RegExp => {
  const parts = withoutFigures(shown).split('[...]');
  return new RegExp(
    `^${parts.map((each) => each.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('.*')}$`,
    's',
  );
};

/** Milliseconds that a block may take. */
const patience = 150_000;

/** Calls `run`. If it takes too long, kills the shell and everything that the shell has started. */
async function inTime<T>(shell: ChildProcess, run: () => Promise<T>): Promise<T> {
  const limit = setTimeout(() => process.kill(-Number(shell.pid), 'SIGKILL'), patience);
  try {
    return await run();
  } finally {
    clearTimeout(limit);
  }
}

/** Commands that go on until they are stopped. */
const serves = /^(?:\w+=(?:\$\([^)]*\)|\S+) )*(?:npx )?remote-app serve\b(?!.*--check)/;
const watches = /^remote-app (?:forward\b|(?:jobs|gpus) .*--watch)/;

/** What a page starts with. */
export interface Setting {
  /** Apps that a server has. */
  readonly apps?: readonly string[];
  /** How many GPUs the machine has; 2 by default. */
  readonly gpus?: number;
  /** By heading, what changes for the blocks under it and those that follow. */
  readonly under?: Readonly<Record<string, Setting>>;
  /** Texts of the page, and what stands for them here. */
  readonly changes?: Readonly<Record<string, string>>;
  /** What is typed where a command asks. */
  readonly stdin?: string;
  /** Commands that the reader has run already. */
  readonly before?: string;
}

/** A page that is tried out: its directory, its home and its server. Its blocks are run in order. */
export class Page implements AsyncDisposable {
  #server: ChildProcess | null = null;
  #setting: Setting = {};

  private constructor(
    readonly directory: string,
    readonly name: string,
    private readonly port: number,
    private readonly remove: () => PromiseLike<void>,
  ) {}

  /** @param plantFiles writes what the page takes for granted */
  static async create(name: string, plantFiles: (directory: string) => Promise<void>): Promise<Page> {
    const root = await temporary();
    const at = (each: string) => path.join(root.path, each);
    for (const each of ['work', 'home', 'bin', 'tmp']) mkdirSync(at(each));
    shareCode(at('home'));
    const shim = `#!/bin/sh\nexec ${[process.execPath, ...nodeFlags].join(' ')} ${path.join(repository, 'bin/run.js')} "$@"\n`;
    writeFileSync(at('bin/remote-app'), shim, { mode: 0o755 });
    writeFileSync(at('state'), `cd '${at('work')}'\n`);
    await plantFiles(at('work'));
    return new Page(at('work'), name, await freePort(), () => root[Symbol.asyncDispose]());
  }

  /** Serves apps, and runs what the reader has run already. */
  async prepare(setting: Setting): Promise<void> {
    this.#setting = { ...this.#setting, ...setting };
    const { apps, before } = setting;
    if (apps) await this.#serve(`remote-app serve ${apps.map((each) => `--apps ${each}`).join(' ')}`);
    if (before) await this.run({ line: 0, heading: '', hasOutput: false, text: before, reason: null });
  }

  /** Runs a block. @throws an error that says which of its commands failed, or showed something else */
  async run(block: Block): Promise<void> {
    let quick: Step[] = [];
    for (const step of stepsOf(block)) {
      const command = this.#changed(step.command);
      if (!serves.test(command) && !watches.test(command)) {
        quick.push({ ...step, command });
        continue;
      }
      await this.#runAll(block, quick);
      quick = [];
      if (serves.test(command)) await this.#serve(command);
      else await this.#watch(command);
    }
    await this.#runAll(block, quick);
  }

  #changed(command: string): string {
    const all = {
      'https://gpu.example.org': `http://127.0.0.1:${this.port}`,
      'ssh://you@gpu.example.org': `http://127.0.0.1:${this.port}`,
      '127.0.0.1:8000': `127.0.0.1:${this.port}`,
      ...this.#setting.changes,
    };
    return Object.entries(all).reduce((changed, [from, to]) => changed.replaceAll(from, to), command);
  }

  #shell(script: string): ChildProcess {
    const at = (each: string) => path.join(this.directory, '..', each);
    const { PATH, ...others } = serverEnvironment({ home: at('home') });
    const env = {
      ...others,
      PATH: `${at('bin')}:${PATH}`,
      REMOTE_APP_SERVER: `http://127.0.0.1:${this.port}`,
      REPOSITORY: repository,
      TMPDIR: at('tmp'),
    };
    const words = ['-c', `set -a; . '${at('state')}'; FAKE_GPUS=${this.#setting.gpus ?? 2}\n${script}`];
    return spawn('bash', words, { env, detached: true, stdio: 'pipe' });
  }

  /** Runs commands to their end in one shell, which leaves its variables and its directory to the next one. */
  async #runAll({ line }: Block, steps: readonly Step[]): Promise<void> {
    if (steps.length === 0) return;
    const each = steps.map(
      ({ command }) =>
        `printf '\\036'\n${command}\nlast=$?; [ $last = 0 ] || { echo "Exit code $last"; exit 1; }`,
    );
    const save = `{ export -p; printf 'cd %q\\n' "$PWD"; } > '${path.join(this.directory, '../state')}'`;
    const shell = this.#shell(['exec 2>&1', ...each, save].join('\n'));
    let printed = '';
    shell.stdout?.on('data', (text: Buffer) => {
      printed += text;
    });
    shell.stdin?.on('error', () => {}).end(this.#setting.stdin);
    const [code] = await inTime(shell, () => once(shell, 'close'));
    const outputs = printed.split('\u001e').slice(1);
    const where = `docs block of ${this.name}, line ${line}`;
    if (code !== 0)
      throw new Error(`${where}: '${steps[outputs.length - 1]?.command}' failed:\n${outputs.at(-1)}`);
    for (const [index, { command, output }] of steps.entries()) {
      if (output === null || patternOf(output).test(withoutFigures(outputs[index] ?? ''))) continue;
      throw new Error(`${where}: '${command}' shows\n${outputs[index]}\nand not\n${output}`);
    }
  }

  /** Starts a server in place of the one that ran before. Resolves when it listens. */
  async #serve(command: string): Promise<void> {
    await this.#end();
    const [words = ''] = command.split(/ +#/);
    const own = words.replace(/(?:npx )?remote-app/, 'exec remote-app');
    const shell = this.#shell(`${own} --port ${this.port}`);
    this.#server = shell;
    await this.#said(shell, words, (text) => addressIn(text) !== undefined);
  }

  /** Lets a command that watches print once, and stops it. */
  async #watch(command: string): Promise<void> {
    const shell = this.#shell(`exec ${command}`);
    await this.#said(shell, command, (text) => text.includes('\n'));
    shell.kill('SIGINT');
    if (!hasEnded(shell)) await once(shell, 'exit');
  }

  /** Resolves when a command has printed what is waited for. */
  async #said(shell: ChildProcess, command: string, isEnough: (text: string) => boolean): Promise<void> {
    let text = '';
    const heard = new Promise<void>((resolve, reject) => {
      const hear = (more: Buffer) => {
        text += more;
        if (isEnough(text)) resolve();
      };
      shell.stdout?.on('data', hear);
      shell.stderr?.on('data', hear);
      shell.once('exit', (code) =>
        reject(new Error(`'${command}' of ${this.name} ended with ${code}:\n${text}`)),
      );
    });
    await inTime(shell, () => heard);
  }

  async #end(): Promise<void> {
    const shell = this.#server;
    if (shell === null || hasEnded(shell)) return;
    const exit = once(shell, 'exit');
    shell.kill('SIGTERM');
    await exit;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end();
    await this.remove();
  }
}

export const readPage = (name: string): Promise<string> => readFile(path.join(repository, name), 'utf8');
