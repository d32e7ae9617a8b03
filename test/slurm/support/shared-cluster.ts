import { mkdtempSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { apps, type ServerOptions, TestServer } from '../../support/server.js';
import { type ClusterOptions, SlurmCluster } from '../../support/slurm/cluster.mjs';
import { until } from '../../support/until.mjs';

/** A job as Slurm shows it: the fields of `scontrol show job`, by their names. */
export type SlurmJob = Readonly<Record<string, string>>;

/** A cluster with servers, for the tests of a file. */
export class SlurmBench {
  #cluster: SlurmCluster | null = null;

  constructor(private readonly options: ClusterOptions) {}

  get cluster(): SlurmCluster {
    if (this.#cluster === null) throw new Error('The cluster does not run yet');
    return this.#cluster;
  }

  async start(): Promise<void> {
    this.#cluster = await SlurmCluster.start(this.options);
  }

  async stop(): Promise<void> {
    await this.#cluster?.stop();
  }

  /** The environment of a server that uses it, with these directories before all others in its PATH. */
  environment(...directories: readonly string[]): Record<string, string> {
    const place = [...directories, process.env.PATH].join(':');
    return { ...this.cluster.environment, PATH: place };
  }

  /** A server whose jobs run on the cluster, and whose data directory its nodes share. */
  serve({ flags = [], environment = {}, ...options }: ServerOptions = {}): Promise<TestServer> {
    return TestServer.start({
      ownProcess: true,
      apps: [apps.probe],
      dataDirectory: mkdtempSync(path.join(this.cluster.shared, 'data-')),
      ...options,
      flags: ['--executor', 'slurm', ...flags],
      environment: { ...this.environment(), ...environment },
    });
  }

  /** All jobs that Slurm knows, also those that have ended lately, oldest first. */
  jobs(): SlurmJob[] {
    const text = this.cluster.output(['scontrol', 'show', 'job', '--oneliner']);
    return text
      .split('\n')
      .filter((line) => line.startsWith('JobId='))
      .map(fieldsOf);
  }

  /** The jobs of Slurm that carry the id of a job of a server. */
  jobsOf(id: string): SlurmJob[] {
    return this.jobs().filter(({ JobName = '', Comment = '' }) => `${JobName} ${Comment}`.includes(id));
  }

  /** The one job of Slurm of a server's job, once it is there. */
  async jobOf(id: string): Promise<SlurmJob> {
    const jobs = await until(`Slurm has job ${id}`, () => {
      const found = this.jobsOf(id);
      return found.length > 0 ? found : null;
    });
    if (jobs.length > 1) throw new Error(`Slurm has ${jobs.length} jobs for ${id}`);
    return jobs[0] ?? {};
  }

  /** Waits until the job of Slurm is in this state. */
  async reaches(id: string, state: string): Promise<SlurmJob> {
    return until(`Slurm's job of ${id} is ${state}`, () =>
      this.jobsOf(id).find(({ JobState }) => JobState === state),
    );
  }

  /** Holds all these GPUs by jobs of somebody else. Returns a function that ends them. */
  async fill(...words: readonly string[]): Promise<() => void> {
    const wrap = ['--output=/dev/null', '--job-name=somebody', ...words, '--wrap', 'sleep 600'];
    const ids = this.shape.map(() =>
      this.cluster.output(['sbatch', '--parsable', '--gres=gpu:2', ...wrap]).trim(),
    );
    await until('somebody has all GPUs', () =>
      ids.every((id) => this.jobs().some(({ JobId, JobState }) => JobId === id && JobState === 'RUNNING')),
    );
    return () => void this.cluster.output(['scancel', ...ids]);
  }

  private get shape() {
    return this.cluster.shape.nodes;
  }
}

/** `NAME=VALUE NAME=VALUE`; a value may hold spaces. */
function fieldsOf(line: string): SlurmJob {
  const names = [...line.matchAll(/(?:^|\s)([A-Za-z/:]+)=/g)];
  return Object.fromEntries(
    names.map((match, index) => {
      const end = names[index + 1]?.index ?? line.length;
      return [match[1], line.slice((match.index ?? 0) + match[0].length, end).trim()];
    }),
  );
}

/** One cluster for all the tests of a file. */
export function sharedCluster(options: ClusterOptions = {}): SlurmBench {
  const bench = new SlurmBench(options);
  beforeAll(() => bench.start());
  afterAll(() => bench.stop());
  return bench;
}
