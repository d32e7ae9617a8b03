import { crc32, deflateRawSync } from 'node:zlib';
import unzipper from 'unzipper';

/** The files of a zip archive, by name. */
export async function unzip(archive: Buffer): Promise<Map<string, Buffer>> {
  const { files } = await unzipper.Open.buffer(archive);
  const entries = files.filter(({ type }) => type === 'File');
  return new Map(
    await Promise.all(entries.map(async (entry) => [entry.path, await entry.buffer()] as const)),
  );
}

/** One entry of an archive that may say whatever a test needs. */
export interface Entry {
  readonly name: string;
  readonly content?: string | Buffer;
  readonly deflated?: boolean;
  /** Unix file type and mode: 0o120777 is a symbolic link. */
  readonly mode?: number;
  /** What it says of its size, true or not. */
  readonly statedSize?: number;
  readonly crc?: number;
  readonly flags?: number;
  readonly method?: number;
}

function entryBytes(entry: Entry, offset: number): { local: Buffer; central: Buffer } {
  const { name, content = '', deflated = false, mode = 0, flags = 0 } = entry;
  const plain = Buffer.from(content as string);
  const stored = deflated ? deflateRawSync(plain) : plain;
  const nameBytes = Buffer.from(name);
  const common = Buffer.alloc(26);
  common.writeUInt16LE(20, 0);
  common.writeUInt16LE(flags | 0x800, 2);
  common.writeUInt16LE(entry.method ?? (deflated ? 8 : 0), 4);
  common.writeUInt32LE(entry.crc ?? crc32(plain), 10);
  common.writeUInt32LE(stored.length, 14);
  common.writeUInt32LE(entry.statedSize ?? plain.length, 18);
  common.writeUInt16LE(nameBytes.length, 22);
  const local = Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), common, nameBytes, stored]);
  const tail = Buffer.alloc(14);
  tail.writeUInt32LE((mode << 16) >>> 0, 6);
  tail.writeUInt32LE(offset, 10);
  const madeBy = Buffer.from([20, 3]);
  const central = Buffer.concat([Buffer.from('PK\x01\x02', 'latin1'), madeBy, common, tail, nameBytes]);
  return { local, central };
}

/** Writes a zip archive by hand, so that it can be as wrong as a test needs it. */
export function zip(entries: readonly Entry[], statedCount = entries.length): Buffer<ArrayBuffer> {
  const locals: Buffer[] = [];
  const centrals: Buffer[] = [];
  let offset = 0;
  for (const entry of entries) {
    const { local, central } = entryBytes(entry, offset);
    locals.push(local);
    centrals.push(central);
    offset += local.length;
  }
  const directory = Buffer.concat(centrals);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 'latin1');
  end.writeUInt16LE(statedCount, 8);
  end.writeUInt16LE(statedCount, 10);
  end.writeUInt32LE(directory.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...locals, directory, end]);
}

/** An archive of text files. */
export const zipOf = (files: Readonly<Record<string, string>>): Buffer<ArrayBuffer> =>
  zip(Object.entries(files).map(([name, content]) => ({ name, content })));
