// @ts-check
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * A port that nobody listens on, for a program that cannot choose one itself. It lies below those that the kernel gives to
 * connections, so that it is still free when the program listens.
 */
export async function freePort() {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    if (await isFree(port)) return port;
  }
}

/**
 * Several such ports.
 * @param {number} count
 */
export async function freePorts(count) {
  /** @type {Set<number>} */
  const found = new Set();
  while (found.size < count) found.add(await freePort());
  return [...found];
}

/** @param {number} port */
async function isFree(port) {
  const server = createServer();
  try {
    await once(server.listen(port), 'listening');
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}
