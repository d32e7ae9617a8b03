import { once } from 'node:events';
import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('../programs/bare-server.mjs', import.meta.url));

/** The bare server in a process of its own (see programs/bare-server.mjs). */
export class BareServer {
  #workshop;
  #child;
  #directory;

  /** @param file what GET answers with */
  static async start(workshop, file = '') {
    const server = new BareServer();
    server.#workshop = workshop;
    server.#directory = await workshop.directory('bare');
    server.#child = workshop.start(process.execPath, [program, server.#directory, file], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = await once(server.#child.stdout, 'data');
    server.url = /http:\S+/.exec(String(line))[0];
    return server;
  }

  get pid() {
    return this.#child.pid;
  }

  /** Removes what was uploaded. */
  async emptied() {
    const names = await readdir(this.#directory);
    await Promise.all(names.map((name) => rm(path.join(this.#directory, name))));
  }

  stop() {
    return this.#workshop.end(this.#child);
  }
}
