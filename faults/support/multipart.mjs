export const boundary = 'remote-app-faults-boundary';
export const multipartType = `multipart/form-data; boundary=${boundary}`;

export const filePart = (field, name, content = 'voxels') => ({
  head: `Content-Disposition: form-data; name="${field}"; filename="${name}"\r\nContent-Type: application/octet-stream`,
  content: Buffer.from(content),
});

export const fieldPart = (name, content) => ({
  head: `Content-Disposition: form-data; name="${name}"`,
  content: Buffer.from(content),
});

/** A multipart body, byte by byte. */
export function multipart(parts, { close = `--${boundary}--\r\n` } = {}) {
  const pieces = parts.flatMap(({ head, content }) => [
    Buffer.from(`--${boundary}\r\n${head}\r\n\r\n`),
    content,
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...pieces, Buffer.from(close)]);
}

/** The head of a request, as it goes over the wire. */
export const head = (method, path, headers = []) =>
  Buffer.from([`${method} ${path} HTTP/1.1`, 'Host: localhost', ...headers, '', ''].join('\r\n'), 'latin1');

/** A whole submission of these parts. */
export function submission(path, parts, headers = []) {
  const body = multipart(parts);
  const all = [`Content-Type: ${multipartType}`, `Content-Length: ${body.length}`, ...headers];
  return Buffer.concat([head('POST', path, all), body]);
}
