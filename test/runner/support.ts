import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { RunEnd, RunRequest } from '../../src/runner/index.js';
import { processesWith } from '../support/processes.js';
import { leftOpenAt40 } from '../support/server.js';
import { temporary } from '../support/temporary.js';
import { until } from '../support/until.mjs';

const program = fileURLToPath(new URL('../../dist/runner/main.js', import.meta.url));
let jobs = 0;

/** One job's directory, and the runners that are started on it. */
export class RunnerJob implements AsyncDisposable {
  readonly id: string;
  readonly #runners: ChildProcess[] = [];

  private constructor(
    private readonly root: { path: string } & AsyncDisposable,
    readonly directory: string,
  ) {
    jobs += 1;
    this.id = `runner-test-${process.pid}-${jobs}`;
  }

  static async create(command: readonly string[], request: Partial<RunRequest> = {}): Promise<RunnerJob> {
    const root = await temporary();
    const workspace = path.join(root.path, 'Workspace');
    mkdirSync(workspace);
    mkdirSync(path.join(root.path, 'Output'));
    const job = new RunnerJob(root, root.path);
    const whole: RunRequest = {
      jobId: job.id,
      command,
      wrapper: [],
      isSandboxed: false,
      limits: { memory: null, processes: null },
      inherited: Object.keys(process.env),
      directory: workspace,
      output: path.join(root.path, 'Output'),
      environment: {},
      maxLogBytes: 1 << 20,
      killGrace: 300,
      gpuUuids: [],
      ...request,
    };
    writeFileSync(path.join(root.path, 'run.json'), JSON.stringify(whole));
    return job;
  }

  /** Starts a runner, with this file left open if one is named. */
  start(leftOpen?: number): ChildProcess {
    const stdio = ['ignore', 'ignore', 'ignore', ...leftOpenAt40(leftOpen)] as const;
    const runner = spawn(process.execPath, [program, this.directory], { stdio: [...stdio] });
    this.#runners.push(runner);
    return runner;
  }

  /** Starts a runner and waits for its end. */
  async run(): Promise<RunEnd> {
    const runner = this.start();
    await once(runner, 'exit');
    return this.end();
  }

  get log(): string {
    const file = path.join(this.directory, 'log');
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  }

  get hasEnded(): boolean {
    return existsSync(path.join(this.directory, 'exit.json'));
  }

  end(): RunEnd {
    return JSON.parse(readFileSync(path.join(this.directory, 'exit.json'), 'utf8')) as RunEnd;
  }

  /** Processes of the job and its runners. */
  processes(): number[] {
    return processesWith({ jobs: new Set([this.id]), argument: this.directory, directory: this.directory });
  }

  async prints(text: string): Promise<void> {
    await until(`the job prints ${text}`, () => this.log.includes(text));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const runner of this.#runners) runner.kill('SIGKILL');
    for (const pid of this.processes()) process.kill(pid, 'SIGKILL');
    await this.root[Symbol.asyncDispose]();
  }
}
