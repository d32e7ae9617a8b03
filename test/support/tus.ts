import { createHash } from 'node:crypto';
import type { Api } from './api.js';

export const sha256 = (bytes: string | Uint8Array): string =>
  createHash('sha256').update(bytes).digest('hex');

/** What an answer about an upload states. */
export interface ToldUpload {
  readonly status: number;
  readonly offset: number | null;
  readonly headers: Headers;
  readonly detail: string;
}

type Body = string | Uint8Array<ArrayBuffer> | ReadableStream;
type More = Readonly<Record<string, string>>;

/** Uploads by tus, as any client sends them, without our client's code. */
export class Tus {
  constructor(private readonly api: Pick<Api, 'fetch'>) {}

  async ask(method: string, path: string, headers: More = {}, body?: Body): Promise<ToldUpload> {
    const response = await this.api.fetch(path, {
      method,
      headers: { 'Tus-Resumable': '1.0.0', ...headers },
      ...(body === undefined ? {} : { body, duplex: 'half' }),
    } as RequestInit);
    const text = await response.text();
    const offset = response.headers.get('upload-offset');
    return {
      status: response.status,
      offset: offset === null ? null : Number(offset),
      headers: response.headers,
      detail: text === '' ? '' : String(JSON.parse(text).detail),
    };
  }

  /** Begins an upload, with its first bytes if any are given. */
  begin(content: string | Uint8Array, first?: Body, more: More = {}): Promise<ToldUpload> {
    const headers = {
      'Upload-Length': String(Buffer.byteLength(content)),
      'Upload-Metadata': `sha256 ${Buffer.from(sha256(content)).toString('base64')}`,
      ...(first === undefined ? {} : { 'Content-Type': 'application/offset+octet-stream' }),
      ...more,
    };
    return this.ask('POST', '/uploads', headers, first);
  }

  head(name: string): Promise<ToldUpload> {
    return this.ask('HEAD', `/uploads/${name}`);
  }

  patch(name: string, offset: number, bytes: Body, more: More = {}): Promise<ToldUpload> {
    const headers = { 'Upload-Offset': String(offset), 'Content-Type': 'application/offset+octet-stream' };
    return this.ask('PATCH', `/uploads/${name}`, { ...headers, ...more }, bytes);
  }

  remove(name: string): Promise<ToldUpload> {
    return this.ask('DELETE', `/uploads/${name}`);
  }

  /** Sends a complete upload and returns its name. */
  async send(content: string | Uint8Array<ArrayBuffer>): Promise<string> {
    const { status, detail } = await this.begin(content, content);
    if (status !== 201) throw new Error(`${status} ${detail}`);
    return sha256(content);
  }
}
