import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { emptyDirectory } from './data.mjs';

const programOf = (name) => fileURLToPath(new URL(`../programs/${name}.mjs`, import.meta.url));

/** A server of another make that our server is compared with, in a process of its own. It writes into a directory of its own. */
export class NodeServer {
  #workshop;
  #child;
  #directory;

  /**
   * @param program the name of one of `programs`, which prints its address
   * @param words what it is started with behind its directory
   */
  static async start(workshop, program, ...words) {
    const server = new NodeServer();
    server.#workshop = workshop;
    server.#directory = await workshop.directory(program);
    server.#child = workshop.start(process.execPath, [programOf(program), server.#directory, ...words], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = await once(server.#child.stdout, 'data');
    server.url = /http:\S+/.exec(String(line))[0];
    return server;
  }

  get pid() {
    return this.#child.pid;
  }

  /** What it has written, as a path. */
  get directory() {
    return this.#directory;
  }

  /** Removes what was uploaded. */
  emptied() {
    return emptyDirectory(this.#directory);
  }

  stop() {
    return this.#workshop.end(this.#child);
  }
}

/**
 * The bare server (see programs/bare-server.mjs).
 * @param file what GET answers with
 */
export const startBare = (workshop, file = '') => NodeServer.start(workshop, 'bare-server', file);
