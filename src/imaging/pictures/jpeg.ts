import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

/** A grey picture, or one with red, green and blue in turn. */
interface Raster {
  readonly width: number;
  readonly height: number;
  readonly pixels: Uint8Array;
  readonly isColour: boolean;
}

/** Makes the bytes of a JPEG. */
export type JpegEncoder = (raster: Raster) => Promise<Buffer>;

const [grey, colours] = [1, 3] as const;
/** Colours keep their places: contours of one pixel would fade. */
const noSubsampling = { auto_subsample: false, chroma_subsample: 1 };

/** Opens MozJPEG's encoder. @param quality from 1 to 100 */
export async function openJpegEncoder(quality: number): Promise<JpegEncoder> {
  const { default: encode, init } = await import('@jsquash/jpeg/encode.js');
  const program = createRequire(import.meta.url).resolve('@jsquash/jpeg/codec/enc/mozjpeg_enc.wasm');
  await init({ wasmBinary: await readFile(program) });
  return async ({ width, height, pixels, isColour }) => {
    const data = new Uint8ClampedArray(width * height * 4).fill(255);
    for (let at = 0; at < width * height; at += 1)
      for (let part = 0; part < 3; part += 1)
        data[at * 4 + part] = pixels[isColour ? at * 3 + part : at] as number;
    const colour = { color_space: isColour ? colours : grey, ...noSubsampling } as const;
    return Buffer.from(await encode({ width, height, data }, { quality, ...colour }));
  };
}
