import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

/** Reads a JPEG: red, green, blue and opacity of each pixel, in turn. */
export async function readJpeg(bytes: Buffer) {
  const { default: decode, init } = await import('@jsquash/jpeg/decode.js');
  const program = createRequire(import.meta.url).resolve('@jsquash/jpeg/codec/dec/mozjpeg_dec.wasm');
  await init({ wasmBinary: await readFile(program), print: () => {}, printErr: () => {} });
  return decode(bytes);
}
