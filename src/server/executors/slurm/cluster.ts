import { setTimeout as delay } from 'node:timers/promises';
import { ServiceError } from '../../../contract/index.js';
import { messageOf } from '../../../files/index.js';
import { type AskedDevices, checkDevices, type Device, type DeviceRequest } from '../index.js';
import { minutesOf } from './slurm.js';

/** Columns of sinfo, which pads them to these widths and truncates longer values. */
const columns = [
  ['NodeList', 128],
  ['Partition', 128],
  ['StateLong', 32],
  ['CPUs', 16],
  ['Gres', 512],
  ['GresUsed', 512],
  ['Time', 32],
  ['Memory', 16],
] as const;

/** The columns that sinfo prints for each node of each partition. */
const nodeFormat = columns.map(([name, width]) => `${name}:${width}`).join(',');

/** A GPU of a node. */
export interface NodeGpu {
  /** For example `a100`; empty if Slurm names none. */
  readonly type: string;
  readonly isFree: boolean;
}

/** A node of the cluster. */
export interface ClusterNode {
  readonly name: string;
  readonly cpus: number;
  /** Memory in bytes; null if the cluster's configuration does not state it. */
  readonly memory: number | null;
  readonly gpus: readonly NodeGpu[];
  /** Minutes that its partition allows a job to run; null if not known. */
  readonly maxMinutes: number | null;
}

/** The entries of a list such as `gpu:a100:2(S:0-1),shard:8(IDX:0,2)`. Commas in parentheses do not separate entries. */
const entriesOf = (list: string): string[] => list.match(/[^,(]+(?:\([^)]*\))?/g) ?? [];

/** The number of GPUs of each type in a list, in the order of the list. */
function countGpus(list: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const entry of entriesOf(list)) {
    const [, type = '', count] =
      /^gpu(?::([^:(]*[^:(\d][^:(]*))?(?::(\d+))?(?:\(|$)/.exec(entry.trim()) ?? [];
    if (!entry.trim().startsWith('gpu')) continue;
    counts.set(type, (counts.get(type) ?? 0) + Number(count ?? 1));
  }
  return counts;
}

/** Whether a node in this state can start jobs. */
const isUsable = (state: string): boolean => !/down|drain|fail|maint|not_resp|unk|boot|power|\*/.test(state);

/**
 * @param gres the GPUs of a node
 * @param used the GPUs that jobs are using
 */
function gpusOf(gres: string, used: string, state: string): NodeGpu[] {
  const taken = countGpus(used);
  const takenInAll = [...taken.values()].reduce((sum, each) => sum + each, 0);
  const all = countGpus(gres);
  return [...all].flatMap(([type, count]) => {
    // If there is a single type, one of the two lists may omit it.
    const busy = all.size === 1 ? takenInAll : (taken.get(type) ?? 0);
    return Array.from({ length: count }, (_, index) => ({ type, isFree: isUsable(state) && index >= busy }));
  });
}

/** The node in a line of sinfo, and its partition; null for a line that lists none. */
function parseLine(line: string): { readonly partition: string; readonly node: ClusterNode } | null {
  let start = 0;
  const cells = columns.map(([, width]) => {
    start += width;
    return line.slice(start - width, start).trim();
  });
  const [name = '', partition = '', state = '', cpus = '', gres = '', used = '', time = '', mib = ''] = cells;
  if (name === '' || !/^\d+$/.test(cpus)) return null;
  const gpus = gpusOf(gres, used, state);
  // Without RealMemory in slurm.conf, Slurm counts a node as one with 1 MiB.
  const memory = Number(mib) > 1 ? Number(mib) * 1024 ** 2 : null;
  return { partition, node: { name, cpus: Number(cpus), memory, gpus, maxMinutes: minutesOf(time) } };
}

/**
 * The nodes that jobs may run on, each once, sorted by name.
 * @param partition null for the cluster's default partition, which sinfo marks with `*`, or for all if there is no default
 */
function parseNodes(answer: string, partition: string | null): ClusterNode[] {
  const lines = answer.split('\n').flatMap((line) => parseLine(line) ?? []);
  const ofDefault = lines.filter((each) => each.partition.endsWith('*'));
  const counting = partition !== null || ofDefault.length === 0 ? lines : ofDefault;
  const byName = new Map(counting.map(({ node }) => [node.name, node]));
  const { compare } = new Intl.Collator('en', { numeric: true });
  return [...byName.values()].sort((a, b) => compare(a.name, b.name));
}

/** Milliseconds for which an answer of sinfo is used. */
const maxAge = 3000;
/** Milliseconds that a request waits for a new answer. */
const maxWait = 1000;

/** The GPUs and cores of the cluster. sinfo is called only when they are needed, and at most every few seconds. */
export class Cluster {
  /** The nodes that sinfo listed last; null until it has answered. */
  nodes: readonly ClusterNode[] | null = null;
  /** Why the last call failed. */
  problem = 'Slurm has not been asked yet';
  #askedAt = Number.NEGATIVE_INFINITY;
  #underWay: Promise<void> | null = null;

  /** @param ask calls sinfo with these arguments */
  constructor(
    private readonly partition: string | null,
    private readonly ask: (words: readonly string[]) => Promise<string>,
  ) {}

  /** Asks again, unless the last answer is recent. Never rejects. */
  async refresh(): Promise<void> {
    if (performance.now() - this.#askedAt < maxAge) return this.#underWay ?? undefined;
    this.#askedAt = performance.now();
    this.#underWay = this.#ask().finally(() => {
      this.#underWay = null;
    });
    return this.#underWay;
  }

  async #ask(): Promise<void> {
    const where = this.partition === null ? [] : [`--partition=${this.partition}`];
    try {
      const answer = await this.ask(['--Node', '--noheader', `--Format=${nodeFormat}`, ...where]);
      this.nodes = parseNodes(answer, this.partition);
    } catch (cause) {
      this.problem = messageOf(cause);
    }
  }

  /**
   * All GPUs, node by node. A GPU's id is its index in this list. A job gets as many GPUs as it names; Slurm chooses which.
   * Asks again, and continues with the last answer if Slurm is slow.
   * @throws ServiceError `gpusUnknown`
   */
  async devices(): Promise<readonly Device[]> {
    await Promise.race([this.refresh(), delay(maxWait, undefined, { ref: false })]);
    if (this.known) return this.known;
    const detail = `The GPUs of this server are not known: Slurm does not answer (${this.problem}); try again later`;
    throw new ServiceError('gpusUnknown', detail);
  }

  /** The GPUs that sinfo listed last; null until it has answered. */
  get known(): readonly Device[] | null {
    const all = this.nodes?.flatMap(({ name, gpus }) => gpus.map((gpu) => ({ ...gpu, node: name })));
    const named = ({ type, ...gpu }: NodeGpu & { readonly node: string }, id: number) =>
      ({ ...gpu, id, name: `${type || 'GPU'} on ${gpu.node}` }) satisfies Device;
    return all?.map(named) ?? null;
  }

  /** The largest number of GPUs, of cores and of bytes of memory of any node; null if the memory is not known. */
  get largest(): { readonly gpus: number; readonly cpus: number; readonly memory: number | null } {
    const nodes = this.nodes ?? [];
    const memory = nodes.flatMap((node) => node.memory ?? []);
    return {
      memory: memory.length === 0 ? null : Math.max(...memory),
      gpus: Math.max(0, ...nodes.map(({ gpus }) => gpus.length)),
      cpus: Math.max(1, ...nodes.map(({ cpus }) => cpus)),
    };
  }

  /** Minutes that a job may run in its partition; null if not known. */
  get maxMinutes(): number | null {
    const known = (this.nodes ?? []).flatMap(({ maxMinutes }) => maxMinutes ?? []);
    return known.length === 0 ? null : Math.max(...known);
  }

  /** The devices that a submission requests. @throws ServiceError if no node has them */
  check(asked: AskedDevices): DeviceRequest {
    const request = checkDevices(asked, this.known);
    if (request.kind === 'gpus' && this.nodes && request.ids.length > this.largest.gpus) {
      throw new ServiceError(
        'unknownGpu',
        `${request.ids.length} GPUs are more than any node of the cluster has: ${this.largest.gpus}; a job runs on one node`,
      );
    }
    return request;
  }
}
