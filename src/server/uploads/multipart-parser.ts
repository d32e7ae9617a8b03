import type { Transform } from 'node:stream';

/** What formidable's parser tells, piece by piece. */
export interface ParserEvent {
  readonly name: string;
  readonly buffer?: Buffer;
  readonly start?: number;
  readonly end?: number;
}

/** formidable's parser of multipart forms, as far as it is worked with. */
export interface MultipartParser extends Transform {
  /** What a part ends with: a line break, two hyphens and the boundary. */
  readonly boundary: Buffer;
  readonly state: number;
  push(event: ParserEvent | null): boolean;
}
