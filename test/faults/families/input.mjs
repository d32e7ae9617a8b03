/** Hostile or random input: mutated requests, and values that look like flags. */
import { Server } from '../support/server.mjs';
import { fuzz } from './input/fuzz.mjs';
import { injectFlags } from './input/inject-flags.mjs';

/** The limits are small, so that inputs that exceed them are small too. */
const flags = ['--max-file-size', '1MiB', '--max-upload-size', '2MiB', '--grace', '600'];

export async function run(context) {
  const server = await new Server(context, { flags: [...flags, '--cpu-slots', '1'] }).start();
  try {
    await context.attempt('The fuzzer', () => fuzz(context, server));
    await context.attempt('Values that would be flags', () => injectFlags(context, server));
  } finally {
    await server.close();
  }
}
