/** The part used of an encoder whose own types are for browsers. */

declare module '@jsquash/jpeg/encode.js' {
  export function init(options: { readonly wasmBinary: Uint8Array }): Promise<void>;
  export default function encode(
    picture: { readonly width: number; readonly height: number; readonly data: Uint8ClampedArray },
    options: {
      /** From 1 to 100. */
      readonly quality: number;
      /** 1 for grey, 3 for YCbCr. */
      readonly color_space: 1 | 3;
      readonly auto_subsample: boolean;
      readonly chroma_subsample: number;
    },
  ): Promise<ArrayBuffer>;
}
