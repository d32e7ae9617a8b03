import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { Interrupted } from '../../client/errors.js';
import { writeErr } from './standard-streams.js';

/** The first line of stdin; empty if there is none. */
async function firstLine(): Promise<string> {
  for await (const line of createInterface({ input: process.stdin })) return line;
  return '';
}

/**
 * Asks for a secret without showing what is typed. If stdin is not a terminal, reads its first line.
 * @throws Interrupted on Ctrl-C
 */
export async function readSecret(question: string): Promise<string> {
  if (!process.stdin.isTTY) return firstLine();
  writeErr(question);
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const prompt = createInterface({ input: process.stdin, output: nowhere, terminal: true });
  try {
    return await new Promise<string>((resolve, reject) => {
      prompt.once('line', resolve);
      prompt.once('SIGINT', () => reject(new Interrupted('SIGINT')));
      prompt.once('close', () => resolve(''));
    });
  } finally {
    prompt.close();
    writeErr('\n');
  }
}
