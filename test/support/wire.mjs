// @ts-check

const headEnd = '\r\n\r\n';
/** The first bytes of an archive that contains a file. */
export const zipStart = Buffer.from('PK\x03\x04');

/** @param {Buffer} bytes */
export const isArchive = (bytes) => bytes.subarray(0, zipStart.length).equals(zipStart);

/**
 * A file that a client sent.
 * @typedef {object} SentFile
 * @property {string} name as the server sees it
 * @property {Buffer} bytes
 * @property {boolean} isWhole whether it is there to its end
 */

/**
 * The requests of a connection, each as its head and its body. The last may be broken off.
 * @param {Buffer} bytes
 */
function* requestsIn(bytes) {
  let at = 0;
  while (at < bytes.length) {
    const end = bytes.indexOf(headEnd, at);
    if (end < 0) return;
    const head = bytes.toString('latin1', at, end);
    const length = Number(/^content-length: *(\d+)$/im.exec(head)?.[1] ?? 0);
    if (/^transfer-encoding:/im.test(head))
      throw new Error(`A body without a length is not read here: ${head}`);
    const from = end + headEnd.length;
    yield { head, body: bytes.subarray(from, from + length), length };
    at = from + length;
  }
}

/**
 * The files of a form.
 * @param {string} head
 * @param {Buffer} body
 * @returns {Generator<SentFile>}
 */
function* filesOfForm(head, body) {
  const boundary = /^content-type: *multipart\/form-data; boundary=(\S+)$/im.exec(head)?.[1];
  if (boundary === undefined) return;
  const mark = Buffer.from(`--${boundary}`);
  for (let at = body.indexOf(mark); at >= 0; ) {
    const next = body.indexOf(mark, at + mark.length);
    const part = body.subarray(at + mark.length + 2, next < 0 ? body.length : next - 2);
    const end = part.indexOf(headEnd);
    const name = end < 0 ? undefined : /filename="([^"]*)"/.exec(part.toString('utf8', 0, end))?.[1];
    if (name !== undefined) yield { name, bytes: part.subarray(end + headEnd.length), isWhole: next >= 0 };
    at = next;
  }
}

/**
 * The bytes of an upload in a request, and the digest that names it.
 * @param {string} head
 * @param {Buffer} body
 */
function pieceOfUpload(head, body) {
  const [, target] = /^(?:POST|PATCH) \S*\/uploads(\/\w{64})? HTTP/.exec(head) ?? [];
  const [, encoded = ''] = /^upload-metadata: *sha256 (\S+)$/im.exec(head) ?? [];
  const sha256 = target?.slice(1) ?? Buffer.from(encoded, 'base64').toString('latin1');
  const offset = Number(/^upload-offset: *(\d+)$/im.exec(head)?.[1] ?? 0);
  return sha256 === '' || body.length === 0 ? null : { sha256, offset, bytes: body };
}

/**
 * The files that a submission of JSON names, in its order.
 * @param {string} head
 * @param {Buffer} body
 * @returns {{ upload: string, name: string }[]}
 */
function namesIn(head, body) {
  if (!/^content-type: *application\/json/im.test(head) || !/^POST \S*\/apps\//.test(head)) return [];
  return Object.values(JSON.parse(body.toString()))
    .flat(2)
    .filter((each) => typeof each?.upload === 'string');
}

/**
 * The files that clients sent, in forms, or as uploads that submissions name. Of an upload that was broken off, also what came first.
 * @param {readonly Buffer[]} connections what was sent over each
 * @returns {SentFile[]}
 */
export function sentFiles(connections) {
  /** @type {SentFile[]} */
  const files = [];
  /** @type {NonNullable<ReturnType<typeof pieceOfUpload>>[]} */
  const pieces = [];
  const named = [];
  for (const { head, body, length } of connections.flatMap((each) => [...requestsIn(each)])) {
    files.push(...filesOfForm(head, body));
    if (body.length === length) named.push(...namesIn(head, body));
    const piece = pieceOfUpload(head, body);
    if (!piece) continue;
    pieces.push(piece);
    if (body.length < length) files.push({ name: piece.sha256, bytes: body, isWhole: false });
  }
  pieces.sort((one, other) => one.offset - other.offset);
  /** @type {Map<string, Buffer>} */
  const contents = new Map();
  for (const { sha256, offset, bytes } of pieces) {
    const before = contents.get(sha256) ?? Buffer.alloc(0);
    contents.set(sha256, Buffer.concat([before.subarray(0, offset), bytes]));
  }
  for (const { upload, name } of named) {
    const bytes = contents.get(upload);
    if (bytes) files.push({ name, bytes, isWhole: true });
  }
  return files;
}
