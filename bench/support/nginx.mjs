import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { freePorts } from '../../support/ports.mjs';
import { until } from '../../support/until.mjs';
import { emptyDirectory } from './data.mjs';
import { send } from './http.mjs';

/**
 * `dav_methods PUT` and otherwise what nginx does by itself. One process, so that its processor time is that of one pid, and
 * it may write where the person who measures may.
 */
const configuration = (directory, files, port) => `
daemon off;
master_process off;
pid ${directory}/nginx.pid;
events {}
http {
  access_log off;
  client_body_temp_path ${directory}/body;
  proxy_temp_path ${directory}/proxy;
  fastcgi_temp_path ${directory}/fastcgi;
  uwsgi_temp_path ${directory}/uwsgi;
  scgi_temp_path ${directory}/scgi;
  server {
    listen 127.0.0.1:${port};
    location / {
      root ${files};
      dav_methods PUT;
      client_max_body_size 0;
    }
  }
}
`;

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
    const [port] = await freePorts(1);
    const config = path.join(root, 'nginx.conf');
    await writeFile(config, configuration(root, server.directory, port));
    server.#child = workshop.start('nginx', ['-c', config, '-e', path.join(root, 'error.log')], {
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
