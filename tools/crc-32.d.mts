declare const crc32: { buf(bytes: Uint8Array, seed?: unknown): number };
export default crc32;
