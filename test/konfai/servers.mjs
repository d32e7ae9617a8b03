import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { addressIn, hasEnded, serveWords } from '../support/serve.mjs';
import { until } from '../support/until.mjs';
import { programOf, withPrograms } from './environment.mjs';

export const bin = fileURLToPath(new URL('../../bin/run.js', import.meta.url));

/**
 * What both sides are told alike: KonfAI's programs, no GPU, no look at a model hub, and to compile nothing into the app's
 * directory, which a fine-tuning copies into its result.
 */
export const environment = {
  PATH: withPrograms,
  CUDA_VISIBLE_DEVICES: '',
  HF_HUB_OFFLINE: '1',
  PYTHONDONTWRITEBYTECODE: '1',
};

/** A server of either side. */
class Server {
  #workshop;
  #child;
  #printed = '';

  /** @param side 'our server' or 'their server', as the matrix names it */
  constructor(workshop, side, token) {
    this.#workshop = workshop;
    this.side = side;
    this.token = token;
  }

  async listen(words, env, addressOf) {
    const [program, ...rest] = words;
    const child = this.#workshop.start(program, rest, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...environment, ...env },
    });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        this.#printed = (this.#printed + chunk).slice(-100_000);
      });
    }
    this.url = await until(
      `${this.side} listens`,
      () => {
        if (hasEnded(child)) throw new Error(`${this.side} did not start: ${this.#printed}`);
        return addressOf(this.#printed);
      },
      120_000,
    );
    return this;
  }

  get pid() {
    return this.#child.pid;
  }

  get port() {
    return new URL(this.url).port;
  }

  /** A request with the server's token. */
  fetch(where, options = {}) {
    const authorization = this.token ? { Authorization: `Bearer ${this.token}` } : {};
    return fetch(`${this.url}${where}`, { ...options, headers: { ...authorization, ...options.headers } });
  }

  stop() {
    return this.#workshop.end(this.#child);
  }
}

/** Both servers read the same list of apps: a JSON file whose entries are the identifiers of the apps. */
async function listOf(workshop, apps) {
  const file = path.join(await workshop.directory('apps'), 'apps.json');
  await writeFile(file, JSON.stringify({ apps }));
  return file;
}

/** The flags and the environment of a token; without one the server is open. */
const tokenOf = ({ token = '', auth, tokenVariable }, usual) => ({
  flags: [
    ...(auth || !token ? ['--auth', auth ?? 'off'] : []),
    ...(tokenVariable ? ['--token-env', tokenVariable] : []),
  ],
  env: token ? { [tokenVariable ?? usual]: token } : {},
});

/** `remote-app serve`, with KonfAI's engine, and with a sandbox where there can be one, as it starts by itself. */
export async function startOurs(workshop, options) {
  const {
    apps,
    token = '',
    flags = [],
    env = {},
    isLoaded = false,
    dataDirectory = await workshop.directory('data'),
  } = options;
  const secret = tokenOf(options, 'SERVICE_API_TOKEN');
  const list = await listOf(workshop, apps);
  const words = serveWords({
    dataDirectory,
    apps: [list],
    flags: ['--sandbox', 'auto', ...(isLoaded ? ['--engine-resident'] : []), ...secret.flags, ...flags],
  });
  const server = new Server(workshop, isLoaded ? 'ours, loaded' : 'our server', token);
  server.isLoaded = isLoaded;
  return server.listen([process.execPath, bin, ...words], { ...secret.env, ...env }, addressIn);
}

/** `konfai-apps-server`. */
export async function startTheirs(workshop, options) {
  const { apps, token = '', flags = [], env = {} } = options;
  const secret = tokenOf(options, 'KONFAI_API_TOKEN');
  const list = await listOf(workshop, apps);
  const words = ['--host', '127.0.0.1', '--port', '0', '--apps', list, ...secret.flags, ...flags];
  const server = new Server(workshop, 'their server', token);
  const addressOf = (printed) => /Uvicorn running on (http:\S+)/.exec(printed)?.[1];
  return server.listen([programOf('konfai-apps-server'), ...words], { ...secret.env, ...env }, addressOf);
}

/** `remote-app forward` to a server, as a server with a token of its own. */
export async function startForward(workshop, { url, side, token }) {
  const server = new Server(workshop, side, null);
  const words = [process.execPath, bin, 'forward', '--port', '0', '--json', '--server', url];
  return server.listen(words, { SERVICE_API_TOKEN: token }, (printed) => {
    const line = /^\{"host".*\}$/m.exec(printed)?.[0];
    if (line === undefined) return undefined;
    const { host, port, token: secret } = JSON.parse(line);
    server.token = secret;
    return `http://${host}:${port}`;
  });
}
