import type { Reply } from './reply.js';

/**
 * Reads a body as text, up to `longest` bytes. A longer body is not read on: the connection is closed at once.
 * @param onChunk is called for each piece, and may throw
 * @returns null for a body that is longer
 */
export async function readBody(reply: Reply, longest: number, onChunk: () => void): Promise<string | null> {
  const chunks: Buffer[] = [];
  let length = 0;
  // Leaving the loop destroys the body, and with it the connection.
  for await (const chunk of reply.body as AsyncIterable<Buffer>) {
    onChunk();
    length += chunk.length;
    if (length > longest) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, length).toString();
}
