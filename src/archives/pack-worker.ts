/** The thread that packs directories, so that a large result does not hold up whoever asked for it. */
import { parentPort } from 'node:worker_threads';
import { type Packed, packDirectory } from './pack.js';

export interface PackOrder {
  readonly id: number;
  readonly source: string;
  readonly archive: string;
}

/** How an order ended; a system error keeps its code. */
export type PackAnswer =
  | { readonly id: number; readonly packed: Packed }
  | { readonly id: number; readonly message: string; readonly code: string | undefined };

const orders = new Map<number, AbortController>();

async function carryOut({ id, source, archive }: PackOrder): Promise<PackAnswer> {
  const control = new AbortController();
  orders.set(id, control);
  try {
    return { id, packed: await packDirectory(source, archive, { signal: control.signal }) };
  } catch (cause) {
    const { message, code } = cause as NodeJS.ErrnoException;
    return { id, message, code };
  } finally {
    orders.delete(id);
  }
}

parentPort?.on('message', async (message: PackOrder | { readonly abort: number }) => {
  if ('abort' in message) orders.get(message.abort)?.abort();
  else parentPort?.postMessage(await carryOut(message));
});
