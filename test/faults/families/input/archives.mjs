import { crc32, deflateRawSync } from 'node:zlib';
import { zip } from '../../../support/zip.mjs';

const mebibyte = 2 ** 20;
const zeros = (size) => ({ content: Buffer.alloc(size), deflated: true });
const link = 0o120777;
const device = 0o020666;
const fifo = 0o010666;

/** Many entries of the central directory that share the bytes of one (D. Fifield, 2019). */
function overlapping(count, size) {
  const content = Buffer.alloc(size);
  const packed = deflateRawSync(content, { level: 9 }).length;
  const shared = { method: 8, crc: crc32(content), statedPacked: packed, statedSize: size, offset: 0 };
  const others = Array.from({ length: count }, (_, at) => ({ name: `kernel-${at}`, ...shared }));
  return zip([{ name: 'kernel', ...zeros(size) }, ...others]);
}

/** A million entries in a valid central directory; only names. */
function millionEntries() {
  const name = Buffer.from('0000000');
  const record = Buffer.alloc(46);
  record.write('PK\x01\x02', 'latin1');
  record.writeUInt16LE(name.length, 28);
  const all = Buffer.alloc(1_000_000 * (46 + name.length));
  for (let at = 0; at < 1_000_000; at += 1) {
    record.copy(all, at * 53);
    all.write(String(at).padStart(7, '0'), at * 53 + 46, 'latin1');
  }
  const end64 = Buffer.alloc(56);
  end64.write('PK\x06\x06', 'latin1');
  end64.writeBigUInt64LE(44n, 4);
  for (const at of [24, 32]) end64.writeBigUInt64LE(1_000_000n, at);
  end64.writeBigUInt64LE(BigInt(all.length), 40);
  const locator = Buffer.alloc(20);
  locator.write('PK\x06\x07', 'latin1');
  locator.writeBigUInt64LE(BigInt(all.length), 8);
  const end = Buffer.alloc(22, 0xff);
  end.write('PK\x05\x06', 'latin1');
  end.writeUInt16LE(0, 20);
  return Buffer.concat([all, end64, locator, end]);
}

const deep = (parts, length) => Array.from({ length: parts }, () => 'd'.repeat(length)).join('/');

/** Names that lead out of any directory. */
const leadingOut = {
  'up and out': '../../escaped',
  'up and out, later': 'a/../../../escaped',
  'an absolute path': '/tmp/remote-app-escaped',
};

/** Names that no upload may bring. */
const odd = {
  'a Windows path': 'C:\\escaped',
  'a drive without a slash': 'C:escaped',
  'a Windows share': '\\\\host\\share\\escaped',
  'Windows separators': '..\\..\\escaped',
  'a zero byte': 'a\0b',
  'a name too long': 'x'.repeat(300),
  'a line feed': 'a\nb',
  nothing: '',
};

/**
 * Archives that must be refused, by what they are. `limit` is how much an archive may extract to.
 * @param {number} limit bytes
 */
export const hostileArchives = (limit) => ({
  ...Object.fromEntries(
    Object.entries({ ...leadingOut, ...odd }).map(([what, name]) => [what, zip([{ name, content: 'x' }])]),
  ),
  'a link': zip([{ name: 'link', content: '/etc/passwd', mode: link }]),
  'a link and a file behind it': zip([
    { name: 'a', content: '/tmp', mode: link },
    { name: 'a/remote-app-escaped', content: 'x' },
  ]),
  'a device': zip([{ name: 'zero', mode: device }]),
  'a pipe': zip([{ name: 'pipe', mode: fifo }]),
  'one name twice': zip([
    { name: 'a', content: '1' },
    { name: 'a', content: '2' },
  ]),
  'a file that is a directory too': zip([
    { name: 'a', content: '1' },
    { name: 'a/b', content: '2' },
  ]),
  'a directory that is a file too': zip([
    { name: 'a/b', content: '2' },
    { name: 'a', content: '1' },
  ]),
  'a path longer than the system takes': zip([{ name: `${deep(40, 200)}/x`, content: 'x' }]),
  'a bomb that says so': zip([{ name: 'zeros', ...zeros(limit + mebibyte) }]),
  'a bomb that says otherwise': zip([{ name: 'zeros', ...zeros(limit + mebibyte), statedSize: 10 }]),
  'a bomb in small pieces': zip(
    Array.from({ length: 12 }, (_, at) => ({ name: `zeros-${at}`, ...zeros(Math.ceil(limit / 11)) })),
  ),
  'entries that overlap': overlapping(30, Math.ceil(limit / 20)),
  'a size that is too small': zip([{ name: 'a', content: 'x'.repeat(1000), deflated: true, statedSize: 10 }]),
  'a size that is too large': zip([{ name: 'a', content: 'x', deflated: true, statedSize: 100_000 }]),
  'a packed size that is a lie': zip([{ name: 'a', content: 'x', statedPacked: 0x7fffffff }]),
  'a wrong checksum': zip([{ name: 'a', content: 'x', crc: 1 }]),
  'an unknown method': zip([{ name: 'a', content: 'x', method: 99 }]),
  'an encrypted entry': zip([{ name: 'a', content: 'x', flags: 1 }]),
  'a count that is too small': zip([{ name: 'a', content: 'x' }, { name: 'b' }], { statedCount: 1 }),
  'a count of none': zip([{ name: 'a', content: 'x' }], { statedCount: 0 }),
  'two archives in one': Buffer.concat([
    zip([{ name: 'a', content: '1' }]),
    zip([{ name: 'b', content: '2' }]),
  ]),
  'a count that is a lie': zip([{ name: 'a', content: 'x' }], { statedCount: 60_000 }),
  'a directory that is elsewhere': zip([{ name: 'a', content: 'x' }], { directoryOffset: 0x7ffffff0 }),
  'an entry that is elsewhere': zip([
    { name: 'b' },
    { name: 'a', statedPacked: 1, statedSize: 1, offset: 0x7ffffff0 },
  ]),
  'half an archive': zip([{ name: 'a', content: 'x'.repeat(1000) }]).subarray(0, 500),
  'no archive': Buffer.from('this is no archive'),
  'an empty file': Buffer.alloc(0),
  'a million entries': millionEntries,
});
