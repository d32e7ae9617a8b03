/** What is used of decoders that come without types. */

declare module '@cornerstonejs/codec-charls/decodewasmjs' {
  interface JpegLSDecoder {
    getEncodedBuffer(length: number): Uint8Array;
    decode(): void;
    getDecodedBuffer(): Uint8Array;
    getFrameInfo(): { width: number; height: number; bitsPerSample: number; componentCount: number };
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
    getFrameInfo(): {
      width: number;
      height: number;
      bitsPerSample: number;
      componentCount: number;
      isSigned: boolean;
    };
    delete(): void;
  }
  export default function openjpeg(options: {
    print(line: string): void;
    printErr(line: string): void;
  }): Promise<{ J2KDecoder: new () => J2KDecoder }>;
}
