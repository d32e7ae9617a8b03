/** What is used of packages that come without types. */

declare module '@cornerstonejs/codec-charls/decodewasmjs' {
  interface JpegLSDecoder {
    getEncodedBuffer(length: number): Uint8Array;
    decode(): void;
    getDecodedBuffer(): Uint8Array;
    /** 0 where the components follow each other as planes. */
    getInterleaveMode(): number;
    delete(): void;
  }
  export default function charls(options: {
    print(line: string): void;
    printErr(line: string): void;
  }): Promise<{ JpegLSDecoder: new () => JpegLSDecoder }>;
}

declare module '@cornerstonejs/codec-openjpeg/decodewasmjs' {
  interface J2KDecoder {
    getEncodedBuffer(length: number): Uint8Array;
    decode(): void;
    getDecodedBuffer(): Uint8Array;
    getFrameInfo(): { bitsPerSample: number; isSigned: boolean };
    delete(): void;
  }
  export default function openjpeg(options: {
    print(line: string): void;
    printErr(line: string): void;
  }): Promise<{ J2KDecoder: new () => J2KDecoder }>;
}

declare module '@jsquash/jpeg/decode.js' {
  export function init(options: {
    readonly wasmBinary: Uint8Array;
    print(line: string): void;
    printErr(line: string): void;
  }): Promise<void>;
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
