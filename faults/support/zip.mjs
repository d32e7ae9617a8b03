import { crc32, deflateRawSync } from 'node:zlib';

/**
 * One entry's records. An entry: name, content, deflated, mode (Unix type and mode), and what it says of itself,
 * true or not: statedSize, statedPacked, crc, flags, method, offset (of its local record, so that entries may
 * share their bytes).
 */
function records(entry, offset) {
  const { name, content = '', deflated = false, mode = 0, flags = 0 } = entry;
  const plain = Buffer.from(content);
  const stored = deflated ? deflateRawSync(plain, { level: 9 }) : plain;
  const nameBytes = Buffer.from(name);
  const common = Buffer.alloc(26);
  common.writeUInt16LE(20, 0);
  common.writeUInt16LE(flags | 0x800, 2);
  common.writeUInt16LE(entry.method ?? (deflated ? 8 : 0), 4);
  common.writeUInt32LE(entry.crc ?? crc32(plain), 10);
  common.writeUInt32LE(entry.statedPacked ?? stored.length, 14);
  common.writeUInt32LE(entry.statedSize ?? plain.length, 18);
  common.writeUInt16LE(nameBytes.length, 22);
  const tail = Buffer.alloc(14);
  tail.writeUInt32LE((mode << 16) >>> 0, 6);
  tail.writeUInt32LE(entry.offset ?? offset, 10);
  return {
    local: Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), common, nameBytes, stored]),
    central: Buffer.concat([Buffer.from('PK\x01\x02\x14\x03', 'latin1'), common, tail, nameBytes]),
  };
}

/** A zip archive written by hand, so that it can be as wrong as a case needs it. */
export function zip(entries, { statedCount = entries.length, directoryOffset, tail = '' } = {}) {
  const locals = [];
  const centrals = [];
  let offset = 0;
  for (const entry of entries) {
    const { local, central } = records(entry, offset);
    centrals.push(central);
    if (entry.offset !== undefined) continue;
    locals.push(local);
    offset += local.length;
  }
  const directory = Buffer.concat(centrals);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 'latin1');
  end.writeUInt16LE(statedCount & 0xffff, 8);
  end.writeUInt16LE(statedCount & 0xffff, 10);
  end.writeUInt32LE(directory.length, 12);
  end.writeUInt32LE(directoryOffset ?? offset, 16);
  return Buffer.concat([...locals, directory, end, Buffer.from(tail)]);
}
