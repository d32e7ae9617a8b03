import { once } from 'node:events';
import path from 'node:path';
import { type OutOfUse, ServiceError, unknownNeeds } from '../../../contract/index.js';
import { deferred } from '../../../files/index.js';
import { type RunRequest, removedButOpen } from '../../../runner/index.js';
import {
  DrainedGpus,
  type Gpu,
  type GpuInventory,
  type KnownGpu,
  MemoryNotTold,
  NoGpuAnswer,
} from '../../devices/index.js';
import type { ServerEvents } from '../../events.js';
import { totalRam } from '../../ram.js';
import { cgroupOf, limitWords, passedNames, temporaryInSandbox } from '../../sandbox/index.js';
import { whenThereIsRoom } from '../../when-there-is-room.js';
import {
  type AskedDevices,
  checkDevices,
  type Device,
  type DeviceMemory,
  type DeviceRequest,
  type Ended,
  type Executor,
  forgetRun,
  type Grant,
  gpuEnvironment,
  type JobRef,
  type Placed,
  type RunEvent,
  type RunOrder,
  refuseUnknown,
  unrecordedEnd,
  type Waiting,
  type WorkerInfo,
} from '../index.js';
import { type Assignment, type JobFrame, Workers, type WorkersSettings } from '../resident/index.js';
import { GpuPeaks } from './gpu-peaks.js';
import { MachineWatch } from './machine-watch.js';
import { type RunnerSettings, Runners } from './runners.js';
import { Scheduler, type SchedulerSettings, type Ticket, TicketCancelled } from './scheduler.js';

/** The share of the machine's memory that jobs can book: the rest is for the system and the server. */
const bookedShare = 0.9;

export interface LocalSettings
  extends RunnerSettings,
    Pick<WorkersSettings, 'environment' | 'report' | 'sandbox' | 'limits'>,
    Pick<SchedulerSettings, 'maxGpus' | 'maxJobs' | 'gpuMargin'> {
  /** Where and how long apps stay loaded. */
  readonly workers: Pick<WorkersSettings, 'directory' | 'idle' | 'memoryUse' | 'program'>;
  readonly gpus: GpuInventory;
  readonly cpuSlots: number;
  /** Number of processors that all jobs together can use. */
  readonly processors: number;
  /** Bytes kept from the start of a job's log. */
  readonly maxLogBytes: number;
  /** Names of environment variables that jobs get in addition to `passedVariables`: `serve --pass-env`. */
  readonly passEnvironment: readonly string[];
  /** Directory of the cgroup below which jobs get cgroups of their own; without it, their memory is only watched. */
  readonly cgroups?: string | null;
  /** Jobs wait while its disk is full. */
  readonly dataDirectory: string;
  readonly events: ServerEvents;
  /**
   * Whether the program was upgraded, so that a runner started now would not be the one that this server expects; jobs then wait.
   */
  readonly isUpgraded?: () => boolean;
}

/** A job in this executor. */
interface Run {
  readonly path: string;
  ticket: Ticket;
  isStopped: boolean;
  /** Whether there is a runner to which a stop must be sent. */
  isLaunched: boolean;
  readonly over: Promise<void>;
}

/** Runs jobs on this machine, in the order in which its scheduler grants them devices. */
export class LocalExecutor implements Executor {
  readonly #scheduler: Scheduler;
  readonly #runners: Runners;
  /** Keyed by job directory. */
  readonly #runs = new Map<string, Run>();
  readonly #watch: MachineWatch;
  readonly #workers: Workers;
  readonly #drained: DrainedGpus;
  readonly #peaks: GpuPeaks;
  #isDraining = false;

  /** The GPUs may become known only later. */
  constructor(private readonly settings: LocalSettings) {
    const { gpus, cpuSlots, isUpgraded } = settings;
    this.#runners = new Runners(settings);
    const { environment, report, sandbox, limits } = settings;
    this.#workers = new Workers({ ...settings.workers, environment, report, sandbox, limits });
    this.#peaks = new GpuPeaks(gpus.smi);
    this.#drained = new DrainedGpus(path.join(settings.dataDirectory, 'drained-gpus.json'));
    const upgraded = 'the next start of the server, whose program was upgraded';
    const isLoaded = ({ id }: Gpu) => this.workers().some((worker) => worker.gpus.includes(id));
    const isIdle = (gpu: Gpu) => this.#scheduler.isFree(gpu) && !isLoaded(gpu);
    this.#watch = new MachineWatch({ ...settings, isIdle });
    this.#scheduler = new Scheduler(gpus.current, cpuSlots, {
      ...settings,
      pause: () => (isUpgraded?.() ? upgraded : this.#watch.pause()),
      outOf: (gpu) => this.#outOf(gpu),
      isFilled: (gpu) => this.#watch.isFilled(gpu),
      memoryOf: (gpu) => this.#memoryOf(gpu),
      machine: { memory: totalRam() * bookedShare, cpus: settings.processors },
    });
    gpus.on('known', () => this.#scheduler.setGpus(gpus.current ?? []));
    this.#watch.on('change', () => this.#scheduler.reconsider());
    this.#watch.start();
  }

  /** Counts what an owner used before this server started (`Scheduler.remember`). */
  remember(owner: string | null, gpuTime: number, ago: number): void {
    this.#scheduler.remember(owner, gpuTime, ago);
  }

  /** Tries to grant devices again after the limits of owners have changed. */
  reconsider(): void {
    this.#scheduler.reconsider();
  }

  /** The GPUs of this machine. @throws ServiceError `gpusUnknown` */
  get #gpus(): readonly Gpu[] {
    const { current, problem } = this.settings.gpus;
    if (current) return current;
    const detail = `The GPUs of this server are not known: ${problem}; try again later`;
    throw new ServiceError('gpusUnknown', detail);
  }

  async devices(): Promise<readonly Device[]> {
    return this.#gpus.map((gpu) => ({ ...gpu, isFree: this.#scheduler.isFree(gpu), out: this.#outOf(gpu) }));
  }

  #outOf(gpu: KnownGpu): OutOfUse | null {
    if (this.#drained.has(gpu)) return 'drained';
    return this.settings.gpus.faultOf(gpu) === null ? null : 'faulty';
  }

  drainGpus(ids: readonly number[], isDrained: boolean): void {
    refuseUnknown(ids, this.#gpus);
    const gpus = this.#gpus.filter(({ id }) => ids.includes(id));
    this.#drained.set(gpus, isDrained);
    this.settings.events.announce('gpusDrained', { gpus: ids, isDrained });
    const drained = { gpus: ids, gpuUuids: gpus.map(({ uuid }) => uuid) };
    // One that has a job leaves after it.
    if (isDrained) void this.#workers.clear(drained, null, () => Number.NEGATIVE_INFINITY);
    this.#scheduler.reconsider();
  }

  async memory(ids: readonly number[]): Promise<DeviceMemory> {
    const gpus = this.#gpus;
    refuseUnknown(ids, gpus);
    try {
      const uses = await this.settings.gpus.vram(gpus.filter(({ id }) => ids.includes(id)));
      const sum = (of: keyof DeviceMemory) => uses.reduce((total, use) => total + use[of], 0);
      return { used: sum('used'), total: sum('total') };
    } catch (cause) {
      if (cause instanceof MemoryNotTold) throw new ServiceError('memoryUnknown', cause.message, { cause });
      if (!(cause instanceof NoGpuAnswer)) throw cause;
      const detail = `The GPU memory is not known: ${cause.message}; try again later`;
      throw new ServiceError('gpusUnknown', detail, { cause });
    }
  }

  capacity() {
    const { gpus, limits } = this.settings;
    const total = totalRam();
    return {
      gpus: gpus.current?.map((gpu) => ({ id: gpu.id, memory: this.#memoryOf(gpu) })) ?? null,
      memory: Math.min(total, limits.memory ?? total),
      cpus: this.settings.processors,
    };
  }

  #memoryOf(gpu: KnownGpu): number | null {
    return this.settings.gpus.useOf(gpu)?.total ?? null;
  }

  check(asked: AskedDevices): DeviceRequest {
    return checkDevices(asked, this.settings.gpus.current);
  }

  run(order: RunOrder): AsyncIterable<RunEvent> {
    const { directory, isAccepted, grant } = order;
    // If an earlier server accepted the job, it waits for a missing GPU, which may come back.
    const impossible = isAccepted ? null : this.#scheduler.impossible(order);
    if (impossible !== null) throw new Error(impossible);
    const ticket = grant
      ? this.#scheduler.adopt(grant, { ...order, id: directory.id })
      : this.#request(order, null);
    const { promise: over, resolve: settle } = deferred<void>();
    const run = { path: directory.path, ticket, isStopped: false, isLaunched: false, over };
    this.#runs.set(run.path, run);
    return this.#events(order, run, settle);
  }

  async stop(job: JobRef): Promise<void> {
    const run = this.#runs.get(job.path);
    if (run) {
      run.isStopped = true;
      run.ticket.cancel();
    }
    if (!run || run.isLaunched) this.#runners.stop(job.path);
    if (!run) await this.#runners.untilEnded(job, null);
    await run?.over;
  }

  isRunning({ path }: JobRef): boolean {
    return this.#runners.isRunning(path);
  }

  forget({ path }: JobRef): void {
    forgetRun(path);
  }

  async removedButOpen({ id, path }: JobRef): Promise<number> {
    return await removedButOpen([id, ...this.#workers.idsOf(id)], path);
  }

  runningUnder(directory: string): readonly JobRef[] {
    return this.#runners.below(directory);
  }

  /** Reserves the GPUs of a running command if they are known, otherwise all GPUs. */
  reserve({ id, path }: JobRef): () => void {
    const all = { gpus: this.settings.gpus.current?.map(({ id }) => id) ?? [], gpuUuids: [] };
    const none = { gpus: [], gpuUuids: [] };
    const held = this.#runners.isRunning(path) ? (this.#runners.gpusOf(path) ?? all) : none;
    const grant = { ...held, cpuSlots: 0 };
    this.#scheduler.adopt(grant, { id, owner: null, needs: unknownNeeds, isAlone: true });
    return () => this.#scheduler.release(grant);
  }

  workers(): readonly WorkerInfo[] {
    return this.#workers.loaded();
  }

  /** Why apps cannot stay loaded in this machine's sandbox; null if they can. */
  residentProblem(): Promise<string | null> {
    return this.#workers.problem();
  }

  /** Starts or stops draining. While draining, idle workers are ended as soon as no job is waiting. */
  drain(isDraining: boolean): void {
    this.#isDraining = isDraining;
    this.#endUnneeded();
  }

  #endUnneeded(): void {
    if (this.#isDraining && this.#scheduler.waiting === 0) void this.#workers.endIdle();
  }

  faults(): readonly string[] {
    return this.#watch.faults;
  }

  /** Ends idle workers, and leaves the others, with their jobs, to the next server. */
  async close(): Promise<void> {
    this.#watch.close();
    this.#peaks.close();
    await this.#workers.close();
  }

  async *#events(order: RunOrder, run: Run, settle: () => void): AsyncGenerator<RunEvent, void> {
    let end = unrecordedEnd(null, 'It was stopped before it started');
    try {
      for (;;) {
        yield* this.#wait(run.ticket);
        const grant = await run.ticket.granted;
        end = (yield* this.#execute(order, run, grant)) ?? end;
        // If the sandbox is broken, a job whose program could not start waits until the sandbox works again.
        if (run.isStopped || end.fault !== 'notStarted' || !(await this.#watch.isSandboxBroken())) break;
        forgetRun(run.path);
        run.isLaunched = false;
        this.#scheduler.release(grant);
        run.ticket = this.#request({ ...order, isAccepted: true }, run.ticket.arrival);
      }
      end = await this.#withMachineFault(run, end);
    } catch (cause) {
      if (!(cause instanceof TicketCancelled)) throw cause;
    } finally {
      run.ticket.cancel();
      const grant = await run.ticket.granted.catch(() => null);
      if (grant) this.#scheduler.release(grant);
      this.#runs.delete(run.path);
      settle();
    }
    yield end;
  }

  /** Adds a job to the queue; `former` is its arrival number if it was in the queue before. */
  #request(order: RunOrder, former: number | null): Ticket {
    const rank = (gpu: number) => this.#workers.rank(order, gpu);
    const ticket = this.#scheduler.request({ ...order, id: order.directory.id, rank, former });
    // The ticket may be cancelled before anybody awaits it.
    ticket.granted.catch(() => {});
    return ticket;
  }

  /** The end of a job, with the fault of its GPU or of the disk if one of them has failed. */
  async #withMachineFault({ isStopped, ticket }: Run, end: Ended): Promise<Ended> {
    if (isStopped || end.exitCode === 0) return end;
    const machineFault = await this.#watch.faultOf(await ticket.granted);
    return machineFault === null ? end : { ...end, machineFault };
  }

  async *#wait(ticket: Ticket): AsyncGenerator<Waiting, void> {
    let last: Waiting | undefined;
    // A job of an earlier server may be granted its devices as soon as all these jobs have joined the queue; only then is it
    // known whether it waits.
    await Promise.resolve();
    // `change` may come late if thousands of jobs wait, so the job's own grant ends the wait too.
    const settled = new AbortController();
    const settle = () => settled.abort();
    ticket.granted.then(settle, settle);
    for (let position = ticket.position(); position !== null; position = ticket.position()) {
      const waiting: Waiting = { kind: 'waiting', for: ticket.waitingFor(), position };
      if (last?.for === waiting.for && last.position === position) {
        await once(this.#scheduler, 'change', { signal: settled.signal }).catch(() => {});
      } else {
        last = waiting;
        yield waiting;
      }
    }
  }

  /** @returns undefined if it was stopped before it had started */
  async *#execute(order: RunOrder, run: Run, grant: Grant): AsyncGenerator<Placed, Ended | undefined> {
    const { directory, timeLimit } = order;
    const { id } = directory;
    try {
      if (order.grant === null || !this.#runners.hasStarted(directory.path, false)) {
        const booking = {
          share: this.#scheduler.gpuShareOf(order),
          leftOf: (gpu: number) => this.#scheduler.leftOf(gpu),
        };
        const assignment = await this.#workers.assign(order, grant, this.#frame(order, grant), booking);
        const where = this.#describe(grant, order, assignment);
        const { start } = assignment;
        yield { kind: 'placed', where, grant, ...(start === null ? {} : { start }) };
        if (!(await this.#launch(order, run, grant, assignment))) return undefined;
      }
      run.isLaunched = true;
      if (run.isStopped) this.#runners.stop(directory.path);
      if (grant.gpus.length > 0) this.#peaks.begin(id, () => [id, ...this.#workers.idsOf(id)]);
      const end = await this.#runners.untilEnded(directory, timeLimit);
      const peakGpuMemory = this.#peaks.end(id);
      return peakGpuMemory === null ? end : { ...end, peakGpuMemory };
    } finally {
      await this.#workers.release(id);
      this.#endUnneeded();
    }
  }

  /** Where a job runs, for the log. */
  #describe(grant: Grant, order: RunOrder, assignment: Assignment): string {
    const parts = (this.settings.gpus.current ?? []).flatMap(({ uuid, mig }) =>
      mig && grant.gpuUuids.includes(uuid) ? `GPU ${mig.gpu}, MIG ${mig.profile}` : [],
    );
    const ids = `GPU ${grant.gpus.join(', ')}`;
    const named = parts.length > 0 ? `${ids} (${parts.join('; ')})` : ids;
    const devices = grant.gpus.length > 0 ? named : 'the CPU';
    const network = order.access().network ? 'with' : 'without';
    return [
      devices,
      ...(this.settings.sandbox ? [`in a sandbox ${network} network`] : []),
      ...assignment.words,
    ].join(', ');
  }

  /** The request that the job's runner is started with. */
  #runRequest(order: RunOrder, grant: Grant): RunRequest {
    const { sandbox, environment: own, limits } = this.settings;
    const { directory } = order;
    const command = order.command(grant);
    const access = order.access();
    const searchPath = own.PATH ?? '';
    const wrapper = sandbox
      ? [
          ...sandbox.wrap({ directory, command, grant, access, memory: limits.memory }, searchPath),
          ...limitWords(limits, searchPath),
        ]
      : [];
    const { cgroups } = this.settings;
    const cgroup = cgroups && limits.memory !== null ? cgroupOf(cgroups, directory.id) : undefined;
    return { ...this.#frame(order, grant), command, wrapper, cgroup };
  }

  /** The request without the command, which is known only once the job is placed. */
  #frame(order: RunOrder, grant: Grant): JobFrame {
    const { sandbox, environment: own, limits, maxLogBytes, killGrace } = this.settings;
    const { directory, environment } = order;
    const access = order.access();
    const isSandboxed = sandbox !== null;
    const network = !isSandboxed || access.network;
    const added = this.settings.passEnvironment;
    const inside = sandbox ? { HOME: temporaryInSandbox, ...access.environment } : {};
    const temporary = sandbox ? { TMPDIR: temporaryInSandbox } : {};
    return {
      jobId: directory.id,
      limits,
      isSandboxed,
      filter: sandbox?.filter,
      directory: directory.workspace,
      output: directory.output,
      inherited: passedNames(own, { isSandboxed, network, added }),
      environment: { ...inside, ...environment, ...temporary, ...gpuEnvironment(grant) },
      maxLogBytes,
      killGrace,
      gpuUuids: grant.gpuUuids,
    };
  }

  /**
   * Starts the runner of a job, unless it has one.
   * @returns whether there is a runner now; false if the job was stopped first
   */
  async #launch(order: RunOrder, run: Run, grant: Grant, assignment: Assignment): Promise<boolean> {
    const { directory, isAccepted } = order;
    if (this.#runners.hasStarted(directory.path, !isAccepted)) return true;
    await assignment.cleared;
    return await whenThereIsRoom(
      async () => {
        const request = this.#runRequest(order, grant);
        const worker = await this.#workers.callOf(request, assignment);
        await this.#runners.launch(directory.path, worker ? { ...request, worker } : request);
      },
      () => run.isStopped,
      (cause) => this.settings.report(`Job ${directory.id} waits until the machine has room for it`, cause),
    );
  }
}
