/** The parts used of packages that come without types. */

interface Output {
  print(line: string): void;
  printErr(line: string): void;
}

/** A decoder of @cornerstonejs. */
interface WasmDecoder {
  getEncodedBuffer(length: number): Uint8Array;
  decode(): void;
  getDecodedBuffer(): Uint8Array;
  delete(): void;
}

declare module '@cornerstonejs/codec-charls/decodewasmjs' {
  interface JpegLSDecoder extends WasmDecoder {
    /** 0 for an image whose red, green and blue are stored one after the other, as three planes. */
    getInterleaveMode(): number;
  }
  export default function charls(options: Output): Promise<{ JpegLSDecoder: new () => JpegLSDecoder }>;
}

declare module '@cornerstonejs/codec-openjpeg/decodewasmjs' {
  interface J2KDecoder extends WasmDecoder {
    getFrameInfo(): { bitsPerSample: number; isSigned: boolean };
  }
  export default function openjpeg(options: Output): Promise<{ J2KDecoder: new () => J2KDecoder }>;
}

declare module '@jsquash/jpeg/decode.js' {
  export function init(options: Output & { readonly wasmBinary: Uint8Array }): Promise<void>;
  /** Red, green, blue and opacity of each pixel, in turn. */
  export default function decode(jpeg: Uint8Array): Promise<{
    readonly width: number;
    readonly height: number;
    readonly data: Uint8ClampedArray;
  }>;
}

declare module 'dicom-character-set' {
  /** @throws Error for a character set that is unknown, and for an unknown escape sequence */
  export function convertBytes(characterSet: string, bytes: Uint8Array, options: { vr: string }): string;
}
