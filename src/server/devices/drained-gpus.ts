import { z } from 'zod';
import { orElse, readJsonFile, writeJsonFile } from '../../files/index.js';
import type { KnownGpu } from './gpu-inventory.js';

const content = z.array(z.object({ id: z.number(), uuid: z.string() }));

/** Whether both are the same GPU, by its UUID if that is known: its id may have changed. */
const isSame = (one: KnownGpu, other: KnownGpu): boolean =>
  one.uuid === '' ? one.id === other.id : one.uuid === other.uuid;

/** The GPUs that an admin has drained: jobs keep them, and no new job gets one. A file keeps them over a restart. */
export class DrainedGpus {
  #gpus: readonly KnownGpu[];

  constructor(private readonly file: string) {
    // Without the file, and with one that cannot be read, none is drained.
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
