import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';

const run = promisify(execFile);
const harness = fileURLToPath(new URL('./run.mjs', import.meta.url));

/** A small part of a family of the fault harness; the whole of it is `npm run faults`. */
async function faults(family: string): Promise<string> {
  const words = ['--rounds', '0.05', '--seed', '1', '--only', family];
  const { stdout } = await run(process.execPath, [harness, ...words]).catch(
    (cause: { stdout: string; stderr: string }) => {
      throw new Error(`${cause.stderr}\n${cause.stdout}`);
    },
  );
  return stdout;
}

describe('a slice of the fault harness', () => {
  test('A slice of the fault harness finds no broken promise and counts what it did', {
    timeout: 120_000,
  }, async () => {
    const table = await faults('server-death');
    expect(table).toMatch(/^server-death +0$/m);
    expect(table).toMatch(/^ {2}deaths of the server +[1-9]\d*$/m);
    expect(table).toMatch(/^All +0$/m);
    expect(table).toMatch(/^longest recovery +\d+ ms$/m);
  });
});
