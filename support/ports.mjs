// @ts-check
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Ports that nobody listens at, for daemons that cannot choose one themselves. They lie below those that the kernel
 * gives to connections, so that none is taken before its daemon listens.
 * @param {number} count
 */
export async function freePorts(count) {
  /** @type {Set<number>} */
  const found = new Set();
  while (found.size < count) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    if (await isFree(port)) found.add(port);
  }
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
