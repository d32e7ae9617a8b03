import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { nginxArguments } from '../../test/support/nginx.mjs';
import { freePort } from '../../test/support/ports.mjs';
import { until } from '../../test/support/until.mjs';
import { emptyDirectory } from './data.mjs';
import { send } from './http.mjs';

/** `dav_methods PUT` and otherwise what nginx does by itself. */
const serverOf = (files, port) => `
  server {
    listen 127.0.0.1:${port};
    location / {
      root ${files};
      dav_methods PUT;
      client_max_body_size 0;
    }
  }`;

/** One process, so that its processor time is that of one pid, and it may write where the person who measures may. */
const oneProcess = 'master_process off;';

/** An nginx that takes files by PUT. It answers when everything is written, and syncs nothing. */
export class Nginx {
  #workshop;
  #child;

  static async start(workshop) {
    const server = new Nginx();
    const root = await workshop.directory('nginx');
    server.#workshop = workshop;
    server.directory = path.join(root, 'files');
    await mkdir(server.directory);
    const port = await freePort();
    const words = nginxArguments(root, serverOf(server.directory, port), oneProcess);
    server.#child = workshop.start('nginx', words, {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    server.url = `http://127.0.0.1:${port}/`;
    await until('nginx listens', () => server.#answers());
    return server;
  }

  get pid() {
    return this.#child.pid;
  }

  /** Removes what was uploaded. */
  emptied() {
    return emptyDirectory(this.directory);
  }

  stop() {
    return this.#workshop.end(this.#child);
  }

  async #answers() {
    if (this.#child.exitCode !== null) throw new Error(`nginx ended with ${this.#child.exitCode}`);
    return send(this.url).then(
      (response) => response.resume(),
      () => false,
    );
  }
}
