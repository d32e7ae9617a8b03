import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { writeJsonFile } from '../../../src/files/index.js';
import {
  onMessages,
  sendMessage,
  type WorkerRequest,
  type WorkerState,
  workerFiles,
} from '../../../src/runner/index.js';

/** What a worker was started with. */
export const workerRequest = (id: string, more: Partial<WorkerRequest> = {}): WorkerRequest => ({
  id,
  command: ['true'],
  wrapper: [],
  isSandboxed: false,
  limits: { memory: null, processes: null },
  inherited: [],
  environment: {},
  killGrace: 60_000,
  idle: 60_000,
  sharedBy: 'app',
  content: 'settings',
  name: 'app',
  owner: null,
  isShared: false,
  gpus: [],
  gpuUuids: [],
  gpuMemory: null,
  watched: [],
  seen: '',
  ...more,
});

/** A worker host that an earlier server has started: it does nothing, and leaves when the test says so. */
export class FakeHost {
  readonly directory: string;
  readonly #held: Socket[] = [];
  /** How often it was asked to leave. */
  asked = 0;
  onLeave = () => {};

  /** @param parent the directory of the workers */
  constructor(
    parent: string,
    readonly id: string,
    more: Partial<WorkerRequest> = {},
    private state: WorkerState = { state: 'idle', job: null },
  ) {
    this.directory = path.join(parent, id);
    mkdirSync(this.directory);
    const { request, socket } = workerFiles(this.directory);
    writeJsonFile(request, workerRequest(id, more), { isKept: false });
    const listener = createServer((connection) => this.#greet(connection)).listen(socket);
    onTestFinished(() => {
      listener.close();
      this.leave();
    });
  }

  #greet(connection: Socket): void {
    this.#held.push(connection);
    onMessages(connection, ({ kind }) => {
      if (kind !== 'leave') return;
      this.asked += 1;
      this.onLeave();
    });
    this.#tell(connection);
  }

  #tell(connection: Socket): void {
    sendMessage(connection, { kind: 'state', state: this.state });
  }

  say(state: WorkerState): void {
    this.state = state;
    for (const each of this.#held) this.#tell(each);
  }

  /** As when its process ends, which removes its directory last. */
  leave(): void {
    if (existsSync(this.directory)) rmSync(this.directory, { recursive: true });
    for (const each of this.#held) each.destroy();
  }
}
