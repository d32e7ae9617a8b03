/** A part of a multipart body whose headers are written out. */
export interface RawPart {
  /** The value of `Content-Disposition`, after `form-data; `. */
  readonly disposition: string;
  readonly headers?: readonly string[];
  readonly content: string | Uint8Array;
}

export const boundary = 'remote-app-test-boundary';
export const multipartType = `multipart/form-data; boundary=${boundary}`;

/** A multipart body, byte by byte as a client of another language might write it. */
export function multipart(parts: readonly RawPart[]): Buffer<ArrayBuffer> {
  const pieces = parts.flatMap(({ disposition, headers = [], content }) => [
    Buffer.from(
      [`--${boundary}`, `Content-Disposition: form-data; ${disposition}`, ...headers, '', ''].join('\r\n'),
    ),
    Buffer.from(content as string),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]);
}

/** A file part as a browser sends it. */
export const filePart = (
  field: string,
  filename: string,
  content: string | Uint8Array = 'voxels',
): RawPart => ({
  disposition: `name="${field}"; filename="${filename}"`,
  headers: ['Content-Type: application/octet-stream'],
  content,
});

export const fieldPart = (name: string, content: string): RawPart => ({
  disposition: `name="${name}"`,
  content,
});

/** The head of a submission's request, as it goes over the wire. */
export const submissionHead = (path: string, ...headers: string[]): string =>
  [`POST ${path} HTTP/1.1`, 'Host: localhost', `Content-Type: ${multipartType}`, ...headers, '', ''].join(
    '\r\n',
  );
