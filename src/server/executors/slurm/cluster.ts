import { setTimeout as delay } from 'node:timers/promises';
import { ServiceError } from '../../../contract/errors.js';
import type { AskedDevices, Device, DeviceRequest } from '../executor.js';
import { checkDevices, refuseUnknown } from '../runs/check-devices.js';
import { type ClusterNode, nodeFormat, parseNodes } from './cluster-nodes.js';

/** Milliseconds for which an answer of sinfo counts. */
const freshness = 3000;
/** Milliseconds for which somebody waits for a new one. */
const patience = 1000;

/** The GPUs and cores of the cluster, by sinfo: asked when somebody wants to know, and at most every few seconds. */
export class Cluster {
  /** Null until sinfo has answered. */
  #nodes: readonly ClusterNode[] | null = null;
  #problem = 'Slurm was not asked yet';
  #askedAt = Number.NEGATIVE_INFINITY;
  #underWay: Promise<void> | null = null;

  /** @param ask calls sinfo with these words */
  constructor(
    private readonly partition: string | null,
    private readonly ask: (words: readonly string[]) => Promise<string>,
  ) {}

  /** The nodes of the last answer; null before the first one. */
  get nodes(): readonly ClusterNode[] | null {
    return this.#nodes;
  }

  /** Why the last call had no answer. */
  get problem(): string {
    return this.#problem;
  }

  /** Asks again, unless there is a fresh answer. Never rejects. */
  async refresh(): Promise<void> {
    if (performance.now() - this.#askedAt < freshness) return this.#underWay ?? undefined;
    this.#askedAt = performance.now();
    this.#underWay = this.#ask().finally(() => {
      this.#underWay = null;
    });
    return this.#underWay;
  }

  /** The same, for somebody who waits for an answer: what is known will do if Slurm takes its time. */
  async refreshSoon(): Promise<void> {
    await Promise.race([this.refresh(), delay(patience, undefined, { ref: false })]);
  }

  async #ask(): Promise<void> {
    const where = this.partition === null ? [] : [`--partition=${this.partition}`];
    try {
      const answer = await this.ask(['--Node', '--noheader', `--Format=${nodeFormat}`, ...where]);
      this.#nodes = parseNodes(answer, this.partition);
    } catch (cause) {
      this.#problem = cause instanceof Error ? cause.message : String(cause);
    }
  }

  /** @throws ServiceError `gpusUnknown` */
  #known(): readonly ClusterNode[] {
    if (this.#nodes) return this.#nodes;
    const detail = `The GPUs of this server are not known: Slurm does not answer (${this.#problem}); try again later`;
    throw new ServiceError('gpusUnknown', detail);
  }

  /**
   * All GPUs, node by node. Their ids are their places in this list; a job gets as many as it names, which ones is Slurm's
   * to choose.
   * @throws ServiceError `gpusUnknown`
   */
  async devices(): Promise<readonly Device[]> {
    await this.refreshSoon();
    return this.#list(this.#known());
  }

  #list(nodes: readonly ClusterNode[]): Device[] {
    const all = nodes.flatMap(({ name, gpus }) => gpus.map((gpu) => ({ ...gpu, node: name })));
    return all.map(({ type, node, isFree }, id) => ({
      id,
      name: `${type || 'GPU'} on ${node}`,
      isFree,
      node,
    }));
  }

  /** Most GPUs, and most cores, that a node has. */
  get biggest(): { readonly gpus: number; readonly cpus: number } {
    const nodes = this.#nodes ?? [];
    return {
      gpus: Math.max(0, ...nodes.map(({ gpus }) => gpus.length)),
      cpus: Math.max(1, ...nodes.map(({ cpus }) => cpus)),
    };
  }

  /** Minutes that a job may run at most, by its partition; null if that is not known. */
  get longest(): number | null {
    const known = (this.#nodes ?? []).flatMap(({ longest }) => longest ?? []);
    return known.length === 0 ? null : Math.max(...known);
  }

  /** @throws ServiceError `unknownGpu` or `gpusUnknown` */
  refuseUnknown(ids: readonly number[]): void {
    refuseUnknown(ids, this.#list(this.#known()));
  }

  /** What a submission asks for. @throws ServiceError if no node has that */
  check(asked: AskedDevices): DeviceRequest {
    const known = this.#nodes && this.#list(this.#nodes);
    const request = checkDevices(asked, known);
    if (request.kind === 'gpus' && known && request.ids.length > this.biggest.gpus) {
      throw new ServiceError(
        'unknownGpu',
        `${request.ids.length} GPUs are more than any node of the cluster has: ${this.biggest.gpus}; a job runs on one node`,
      );
    }
    return request;
  }

  /** Why a new job can never have what it asks for; null if it can, or that is not known. */
  impossible(request: DeviceRequest): string | null {
    if (this.#nodes === null || request.kind !== 'gpus') return null;
    const known = this.#list(this.#nodes);
    const missing = request.ids.filter((id) => id >= known.length);
    const have = known.map(({ id }) => id).join(', ') || 'none';
    return missing.length === 0 ? null : `The cluster has no GPU ${missing.join(', ')}; it has: ${have}`;
  }
}
