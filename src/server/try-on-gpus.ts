import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { servicePrefix, unknownNeeds } from '../contract/index.js';
import { howEnded, type TrialEnd, type TrialJob } from './apps/index.js';
import { type GpuInventory, inventory } from './devices/index.js';
import { ServerEvents } from './events.js';
import type { DeviceRequest, Ended } from './executors/index.js';
import { LocalExecutor } from './executors/local/index.js';
import { type FoundSandbox, findSandbox } from './sandbox/index.js';
import { killGrace, maxLogBytes } from './settings.js';

/** Number of characters from the end of a log that are examined. */
const maxPrinted = 2000;

/** How a job ended, in words; null if it succeeded. */
function howOf(end: Ended, seconds: number): string | null {
  const isLate = end.fault === 'timeLimit';
  return end.error !== null && !isLate ? `did not run: ${end.error}` : howEnded(end, isLate, seconds);
}

/** The last output of the app itself. */
function printedIn(directory: string): string {
  const lines = readFileSync(path.join(directory, 'log'), 'utf8').slice(-maxPrinted).split('\n');
  return lines
    .filter((line) => !line.startsWith(servicePrefix) || line.startsWith(`${servicePrefix}Cannot`))
    .join('\n')
    .trim();
}

/** Runs jobs of an app as a server of this machine would: with runners, in its sandbox, on its GPUs. */
export class GpuTrial {
  /** How the successful jobs ended, with the seconds that they ran. */
  readonly succeeded: (Ended & { readonly seconds: number })[] = [];

  private constructor(
    private readonly environment: NodeJS.ProcessEnv,
    readonly gpus: GpuInventory,
    readonly found: FoundSandbox,
  ) {}

  /** Determines the GPUs and the sandbox. @throws SetupError if `CUDA_VISIBLE_DEVICES` names no usable GPU */
  static async open(environment: NodeJS.ProcessEnv): Promise<GpuTrial> {
    const gpus = inventory(environment);
    const rules = { binds: [], dataDirectory: '/nonexistent', secretFiles: [], environment, gpus };
    const [found] = await Promise.all([findSandbox('auto', rules), gpus.start()]);
    return new GpuTrial(environment, gpus, found);
  }

  /**
   * Runs a job of the trial.
   * @param directory of the app, which the job may read
   * @param seconds time limit
   */
  async run(job: TrialJob, devices: DeviceRequest, directory: string, seconds: number): Promise<TrialEnd> {
    const { environment, gpus, found } = this;
    const executor = new LocalExecutor({
      ...{ environment, gpus, killGrace, maxLogBytes, sandbox: found.sandbox },
      passEnvironment: [],
      dataDirectory: job.path,
      cpuSlots: availableParallelism(),
      processors: availableParallelism(),
      limits: { memory: null, processes: null },
      workers: { directory: path.join(job.path, 'workers'), idle: 0, memoryUse: () => 0 },
      events: new ServerEvents(() => {}),
      report: () => {},
    });
    // Keeps the process alive: everything that it waits for is unreferenced, so Node would exit halfway.
    const running = setInterval(() => {}, 60_000);
    try {
      const order = {
        directory: { ...job, id: path.basename(job.path) },
        devices,
        needs: unknownNeeds,
        isAlone: false,
        owner: null,
        timeLimit: seconds * 1000,
        isAccepted: false,
        grant: null,
        environment: { ...job.environment, TMPDIR: job.temporary, PYTHONDONTWRITEBYTECODE: '1' },
        command: job.command,
        access: () => ({ network: false, directories: [directory], environment: {} }),
      };
      let began = 0;
      for await (const event of executor.run(order)) {
        if (event.kind === 'placed') began = performance.now();
        if (event.kind !== 'ended') continue;
        if (event.exitCode === 0)
          this.succeeded.push({ ...event, seconds: (performance.now() - began) / 1000 });
        return { how: howOf(event, seconds), printed: printedIn(job.path) };
      }
      throw new Error('The executor reported no end of the job');
    } finally {
      clearInterval(running);
      await executor.close();
    }
  }

  close(): void {
    this.gpus.close();
  }
}
