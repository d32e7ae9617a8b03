import { type ChildProcess, spawn } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';

/** Commands of Slurm that work on files: a directory for each job, which the cluster reads. */
const programs = {
  sbatch: `#!/bin/sh
n=1; until mkdir "$SCRIPTED_SLURM/new-$n" 2>/dev/null; do n=$((n + 1)); done
job=$SCRIPTED_SLURM/new-$n; name= dir= out=/dev/null gpus=0
for word; do case $word in
  --job-name=*) name=\${word#*=};; --chdir=*) dir=\${word#*=};; --output=*) out=\${word#*=};; --gres=gpu:*) gpus=\${word##*:};;
esac; done
printf '%s\\n' "$@" >"$job/words"; cat >"$job/script"; env >"$job/environment"
printf '%s\\n%s\\n%s\\n' "$dir" "$out" "$gpus" >"$job/wants"
echo "$n|PENDING|$((1000 - n))||UNLIMITED|Resources|$name|$dir" >"$job/row"
echo "$n"
`,
  squeue: `#!/bin/sh
cat "$SCRIPTED_SLURM"/new-*/row 2>/dev/null; exit 0
`,
  scancel: `#!/bin/sh
echo "$*" >>"$SCRIPTED_SLURM/cancelled"
`,
  sinfo: `#!/bin/sh
[ "$1" != --version ] || { echo slurm 24.05; exit; }
cat "$SCRIPTED_SLURM/nodes"
`,
} as const;

const widths = [128, 128, 32, 16, 512, 512, 32, 16];
const nodeLine = (gpus: number, used: number) =>
  ['n1', 'all*', 'idle', '1', gpus > 0 ? `gpu:${gpus}` : '(null)', `gpu:${used}`, 'infinite', '64000']
    .map((cell, at) => cell.padEnd(widths[at] ?? 0))
    .join('');

interface SlurmJob {
  readonly id: number;
  readonly gpus: number;
  process: ChildProcess | null;
  /** The GPUs that it holds. */
  held: readonly number[];
  state: string;
}

/** Milliseconds between two looks at what the commands have written. */
const interval = 20;

/** A cluster of one node with one core, imitated by scripts and this process, for tests of what an executor does with it. */
export class ScriptedCluster {
  readonly #jobs = new Map<number, SlurmJob>();
  readonly #timer: NodeJS.Timeout;
  #cancelled = 0;

  /** @param directory an empty one */
  constructor(
    private readonly directory: string,
    private readonly gpus: number,
  ) {
    mkdirSync(path.join(directory, 'bin'));
    for (const [name, text] of Object.entries(programs)) {
      writeFileSync(path.join(directory, 'bin', name), text);
      chmodSync(path.join(directory, 'bin', name), 0o755);
    }
    this.#tellNodes();
    this.#timer = setInterval(() => this.#step(), interval);
  }

  /** The environment of a server that uses it. */
  get environment(): NodeJS.ProcessEnv {
    const search = `${path.join(this.directory, 'bin')}:${process.env.PATH}`;
    return { ...process.env, PATH: search, SCRIPTED_SLURM: this.directory };
  }

  /** Ends all jobs. */
  close(): void {
    clearInterval(this.#timer);
    for (const job of this.#jobs.values()) this.#signal(job, 'SIGKILL');
  }

  #tellNodes(): void {
    const used = [...this.#jobs.values()].reduce((sum, { held }) => sum + held.length, 0);
    writeFileSync(path.join(this.directory, 'nodes'), `${nodeLine(this.gpus, used)}\n`);
  }

  #step(): void {
    for (const name of readdirSync(this.directory)) {
      const id = Number(/^new-(\d+)$/.exec(name)?.[1]);
      if (!id || this.#jobs.has(id) || !existsSync(path.join(this.directory, name, 'row'))) continue;
      const [, , gpus] = readFileSync(path.join(this.directory, name, 'wants'), 'utf8').split('\n');
      this.#jobs.set(id, { id, gpus: Number(gpus), process: null, held: [], state: 'PENDING' });
    }
    this.#cancelAsked();
    const running = [...this.#jobs.values()].filter(({ state }) => state === 'RUNNING');
    const taken = running.flatMap(({ held }) => held);
    const free = Array.from({ length: this.gpus }, (_, id) => id).filter((id) => !taken.includes(id));
    const isCoreFree = !running.some(({ gpus }) => gpus === 0);
    const next = [...this.#jobs.values()]
      .filter(({ state }) => state === 'PENDING')
      .sort((a, b) => a.id - b.id)
      .find(({ gpus }) => (gpus === 0 ? isCoreFree : gpus <= free.length));
    if (next) this.#start(next, free.slice(0, next.gpus));
  }

  #cancelAsked(): void {
    const file = path.join(this.directory, 'cancelled');
    const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : [];
    for (const line of lines.slice(this.#cancelled)) {
      const words = line.split(' ');
      for (const job of words.flatMap((word) => this.#jobs.get(Number(word)) ?? [])) {
        if (words.includes('--batch')) job.process?.kill('SIGTERM');
        else if (job.state === 'PENDING') this.#become(job, 'CANCELLED');
        else if (job.state === 'RUNNING') {
          job.state = 'CANCELLED';
          this.#signal(job, 'SIGTERM');
          setTimeout(() => this.#signal(job, 'SIGKILL'), 500).unref();
        }
      }
    }
    this.#cancelled = lines.length;
  }

  /** Signals all processes of a job. */
  #signal({ process: child }: SlurmJob, name: NodeJS.Signals): void {
    if (!child?.pid || child.exitCode !== null || child.signalCode !== null) return;
    try {
      process.kill(-child.pid, name);
    } catch {
      // It has just ended.
    }
  }

  #start(job: SlurmJob, held: readonly number[]): void {
    const own = path.join(this.directory, `new-${job.id}`);
    const [directory = '', output = ''] = readFileSync(path.join(own, 'wants'), 'utf8').split('\n');
    const lines = readFileSync(path.join(own, 'environment'), 'utf8').split('\n');
    const environment = Object.fromEntries(
      lines.flatMap((line) => {
        const [, name, value] = /^(\w+)=(.*)$/.exec(line) ?? [];
        return name === undefined ? [] : [[name, value]];
      }),
    );
    const log = existsSync(directory)
      ? openSync(path.resolve(directory, output), 'a')
      : openSync('/dev/null', 'a');
    job.held = held;
    job.process = spawn('/bin/sh', [path.join(own, 'script')], {
      cwd: existsSync(directory) ? directory : '/',
      env: {
        ...environment,
        SLURM_JOB_ID: String(job.id),
        SLURMD_NODENAME: 'n1',
        ...(held.length > 0 ? { CUDA_VISIBLE_DEVICES: held.join(',') } : {}),
      },
      stdio: ['ignore', log, log],
      detached: true,
    });
    closeSync(log);
    this.#become(job, 'RUNNING');
    job.process.once('exit', (code) => {
      job.held = [];
      this.#become(job, job.state === 'CANCELLED' ? 'CANCELLED' : code === 0 ? 'COMPLETED' : 'FAILED');
    });
  }

  #become(job: SlurmJob, state: string): void {
    job.state = state;
    const file = path.join(this.directory, `new-${job.id}`, 'row');
    const [id, , priority, , limit, , ...rest] = readFileSync(file, 'utf8').trimEnd().split('|');
    writeFileSync(`${file}.next`, `${[id, state, priority, 'n1', limit, 'None', ...rest].join('|')}\n`);
    renameSync(`${file}.next`, file);
    this.#tellNodes();
  }
}
