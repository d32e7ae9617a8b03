import { z } from 'zod';
import { orElse, readJsonFile, writeJsonFile } from '../../files/index.js';
import type { KnownGpu } from './gpu-inventory.js';

const content = z.array(z.object({ id: z.number(), uuid: z.string() }));

/** Whether both are the same GPU. Compares UUIDs if they are known, because ids may have changed. */
const isSame = (one: KnownGpu, other: KnownGpu): boolean =>
  one.uuid === '' ? one.id === other.id : one.uuid === other.uuid;

/**
 * The GPUs that an admin has drained: jobs that have one keep it, and no new job gets one. Saved in a file, so that they stay
 * drained after a restart.
 */
export class DrainedGpus {
  #gpus: readonly KnownGpu[];

  constructor(private readonly file: string) {
    // If the file is missing or cannot be read, no GPU is drained.
    this.#gpus = orElse(() => content.parse(readJsonFile(file)), []);
  }

  has(gpu: KnownGpu): boolean {
    return this.#gpus.some((each) => isSame(gpu, each));
  }

  /** @throws the system's error if the file cannot be written */
  set(gpus: readonly KnownGpu[], isDrained: boolean): void {
    const others = this.#gpus.filter((each) => !gpus.some((gpu) => isSame(gpu, each)));
    const all = isDrained ? [...others, ...gpus.map(({ id, uuid }) => ({ id, uuid }))] : others;
    writeJsonFile(this.file, all);
    this.#gpus = all;
  }
}
