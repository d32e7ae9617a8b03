import type { Transform } from 'node:stream';

/** An event of formidable's parser. */
export interface ParserEvent {
  readonly name: string;
  readonly buffer?: Buffer;
  readonly start?: number;
  readonly end?: number;
}

/** The members of formidable's multipart parser that are used here. */
export interface MultipartParser extends Transform {
  /** The end of a part: a line break, two hyphens and the boundary. */
  readonly boundary: Buffer;
  readonly state: number;
  push(event: ParserEvent | null): boolean;
}
