import { partSizeHeader } from '../../contract/http.js';
import { maxPartHeaderBytes } from './form-limits.js';
import type { ParserEvent } from './multipart-parser.js';
import { sizeIn } from './part-headers.js';

/** Reads from the headers of a part how long its content is, where they say so. */
export class StatedSize {
  /** Null if the headers state none. */
  bytes: number | null = null;
  #header = '';
  #value = '';

  /** @param event any of the parser's that is not of a content */
  note({ name, buffer, start, end }: ParserEvent): void {
    if (name === 'partBegin') this.bytes = null;
    if (name === 'headerField')
      this.#header = this.#with(this.#header, buffer?.toString('latin1', start, end));
    if (name === 'headerValue') this.#value = this.#with(this.#value, buffer?.toString('latin1', start, end));
    if (name !== 'headerEnd') return;
    if (this.#header.toLowerCase() === partSizeHeader) this.bytes = sizeIn(this.#value);
    this.#header = '';
    this.#value = '';
  }

  /** Longer headers are refused elsewhere. */
  #with(text: string, more = ''): string {
    return text.length > maxPartHeaderBytes ? text : text + more;
  }
}
