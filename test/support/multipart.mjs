// @ts-check

/**
 * A part of a multipart body whose headers are written out.
 * @typedef {{ readonly headers: readonly string[], readonly content: string | Uint8Array }} RawPart
 */

export const boundary = 'remote-app-test-boundary';
export const multipartType = `multipart/form-data; boundary=${boundary}`;

/** What ends a body. */
const end = `--${boundary}--\r\n`;

/**
 * A multipart body, byte by byte as a client of another language might write it.
 * @param {readonly RawPart[]} parts
 * @param {{ close?: string }} [options] what stands at the end instead of the last boundary
 * @returns {Buffer<ArrayBuffer>}
 */
export function multipart(parts, { close = end } = {}) {
  const pieces = parts.flatMap(({ headers, content }) => [
    Buffer.from([`--${boundary}`, ...headers, '', ''].join('\r\n')),
    typeof content === 'string' ? Buffer.from(content) : content,
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...pieces, Buffer.from(close)]);
}

/** @param {string} parameters of a form's part: `name="inputs"` */
export const disposition = (parameters) => `Content-Disposition: form-data; ${parameters}`;

/**
 * A file part as a browser sends it.
 * @param {string} field
 * @param {string} filename
 * @param {string | Uint8Array} [content]
 * @returns {RawPart}
 */
export const filePart = (field, filename, content = 'voxels') => ({
  headers: [disposition(`name="${field}"; filename="${filename}"`), 'Content-Type: application/octet-stream'],
  content,
});

/**
 * The same part with a header that states its size, as our client sends it.
 * @param {RawPart} part
 * @param {number | string} [size]
 * @returns {RawPart}
 */
export const sizedPart = ({ headers, content }, size = Buffer.byteLength(content)) => ({
  headers: [...headers, `remote-app-size: ${size}`],
  content,
});

/**
 * @param {string} name
 * @param {string} content
 * @returns {RawPart}
 */
export const fieldPart = (name, content) => ({ headers: [disposition(`name="${name}"`)], content });

/**
 * The head of a request, as it goes over the wire: a byte for each character.
 * @param {string} method
 * @param {string} path
 * @param {readonly string[]} [headers]
 * @returns {Buffer<ArrayBuffer>}
 */
export const requestHead = (method, path, headers = []) =>
  Buffer.from([`${method} ${path} HTTP/1.1`, 'Host: localhost', ...headers, '', ''].join('\r\n'), 'latin1');

/**
 * The head of a submission's request.
 * @param {string} path
 * @param {string[]} headers
 */
export const submissionHead = (path, ...headers) =>
  requestHead('POST', path, [`Content-Type: ${multipartType}`, ...headers]);

/**
 * A whole submission of these parts.
 * @param {string} path
 * @param {readonly RawPart[]} parts
 */
export function submission(path, parts) {
  const body = multipart(parts);
  return Buffer.concat([submissionHead(path, `Content-Length: ${body.length}`), body]);
}
