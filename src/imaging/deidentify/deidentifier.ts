import { createHmac } from 'node:crypto';
import { statSync } from 'node:fs';
import { isGzip } from '@remote-app/volumes/headers';
import type { ListedFile, PackedPiece } from '../../archive/index.js';
import { ClientError, UsageError } from '../../client/errors.js';
import type { NamedUnit } from '../../client/found-files.js';
import type { Mode, PreparedFile, Tally, Workplace } from '../../client/outgoing.js';
import { quotePath } from '../../contract/index.js';
import { firstBytes } from '../../files/index.js';
import { hasDicomName } from '../inputs/index.js';
import { deidentifyDicom } from './dicom.js';
import type { NeutralNames } from './names.js';
import { type Deidentified, sizeOf } from './pieces.js';
import { CannotDeidentify, refusals } from './refusals.js';
import { gzipHeaderOf, repack, unpack } from './repack.js';
import { Pseudonyms } from './uids.js';
import { type CleanedFile, cleanedVolume, cleanedVoxels, isDicomFile, namesFiles } from './volume-file.js';
import { notUnderstood } from './volume-start.js';

/** Names of the refusals that the user may override. */
export const refusalNames: readonly string[] = Object.entries(refusals).flatMap(([name, { isAllowable }]) =>
  isAllowable ? [name] : [],
);

/** Bytes read to find the end of a gzip header. */
const gzipStart = 1 << 16;

/** Prepares files for sending, either de-identified or only under neutral names. */
export class Deidentifier {
  readonly #pseudonyms: Pseudonyms;

  constructor(
    readonly mode: Mode,
    /** Refusals that the user overrides: these files are sent although they may identify a person. */
    readonly allowed: ReadonlySet<string>,
    /** The key of the profile, which is never sent. */
    private readonly key: Buffer,
  ) {
    this.#pseudonyms = new Pseudonyms(key);
  }

  /** Derives an idempotency key for the server: always the same, and only this profile can make it. */
  keyFor(text: string): string {
    return createHmac('sha256', this.key).update(`idempotency ${text}`).digest('hex');
  }

  /** Prepares a file that is sent as a volume of its own. @throws UsageError for a file that cannot be de-identified */
  async prepare(
    unit: NamedUnit & { readonly kind: 'file' },
    names: NeutralNames,
    work: Workplace,
    tally?: Tally,
  ): Promise<PreparedFile | null> {
    const { path: file } = unit;
    if (this.#isDicom(unit)) return this.#dicom(file, work, tally);
    const cleaned = this.#cleanedOf(unit, names);
    if (cleaned === null) return null;
    tally?.add(cleaned);
    const { content } = cleaned;
    if ('repack' in content) return repack(file, await work.newFile(), content.repack, work);
    return { path: file, pieces: content.pieces, size: sizeOf(content.pieces) };
  }

  /**
   * Records what leaves of a volume without preparing it. @returns its size in bytes; the size of the original if it would be
   * repacked
   */
  async describe(unit: NamedUnit, names: NeutralNames, work: Workplace, tally: Tally): Promise<number> {
    if (unit.kind === 'file') {
      if (this.#isDicom(unit)) return (await this.#dicom(unit.path, work, tally)).size;
      const cleaned = this.#cleanedOf(unit, names);
      if (cleaned === null) return unit.size;
      tally.add(cleaned);
      return 'repack' in cleaned.content ? unit.size : sizeOf(cleaned.content.pieces);
    }
    let bytes = 0;
    for (const { pieces, size = 0 } of await this.filesTogether(unit, work, tally)) {
      work.signal?.throwIfAborted();
      bytes += pieces ? sizeOf(await pieces()) : size;
      work.onBytes(bytes);
    }
    return bytes;
  }

  /**
   * The files of a series or store as they are sent together. Slices are named by their numbers, store files by the keys of their
   * arrays.
   */
  async filesTogether(
    unit: NamedUnit & { readonly kind: 'series' | 'store' },
    work: Workplace,
    tally?: Tally,
  ): Promise<ListedFile[]> {
    if (unit.kind === 'store') {
      if (this.mode === 'names') return [...unit.files];
      throw notUnderstood(unit.path, 'it is a store of OME-Zarr');
    }
    const width = Math.max(4, String(unit.files.length).length);
    const listed: ListedFile[] = [];
    for (const [number, at] of unit.series.order.entries()) {
      const file = unit.files[at];
      if (!file) continue;
      const name = `${String(number + 1).padStart(width, '0')}.dcm`;
      listed.push(await this.#slice(file.path, name, work, tally));
    }
    return listed;
  }

  async #slice(file: string, name: string, work: Workplace, tally: Tally | undefined): Promise<ListedFile> {
    if (this.mode === 'names') {
      const pieces = withoutGzipName(file);
      const ending = isGzip(firstBytes(file, 2)) ? '.gz' : '';
      return { name: name + ending, path: file, ...(pieces ? { pieces: async () => pieces } : {}) };
    }
    const plain = await unpackedIfPacked(file, work);
    return {
      name,
      path: plain,
      pieces: async () => {
        const cleaned = await this.#deidentified(plain, file);
        tally?.add(cleaned);
        return cleaned.pieces;
      },
    };
  }

  async #dicom(file: string, work: Workplace, tally: Tally | undefined): Promise<PreparedFile> {
    const plain = await unpackedIfPacked(file, work);
    const cleaned = await this.#deidentified(plain, file);
    tally?.add(cleaned);
    return { path: plain, pieces: cleaned.pieces, size: cleaned.size };
  }

  async #deidentified(plain: string, file: string): Promise<Deidentified> {
    const how = { pseudonyms: this.#pseudonyms, allowed: this.allowed };
    try {
      return await deidentifyDicom(plain, quotePath(file), how);
    } catch (cause) {
      if (!(cause instanceof CannotDeidentify && cause.isAllowable)) throw cause;
      const flag = `--allow-identifying ${cause.refusal}`;
      throw new ClientError(`${cause.message} with ${flag}`, cause.exitCode, cause.details, { cause });
    }
  }

  #isDicom({ path: file, isHalf }: NamedUnit): boolean {
    return this.mode === 'full' && !isHalf && (hasDicomName(file) || isDicomFile(file));
  }

  /** Null for a file that is sent unchanged. */
  #cleanedOf(unit: NamedUnit & { readonly kind: 'file' }, names: NeutralNames): CleanedFile | null {
    const { path: file, isHalf } = unit;
    const nameOf = (data: string) => names.nameOfPath(data);
    const [header] = unit.headers;
    if (this.mode === 'full') {
      if (isHalf && header !== undefined) return cleanedVoxels(file, header);
      return cleanedVolume(file, nameOf);
    }
    // These headers name their voxel files.
    if (header !== undefined && namesFiles(header)) return cleanedVoxels(file, header);
    if (namesFiles(file)) return cleanedVolume(file, nameOf);
    const pieces = withoutGzipName(file);
    return pieces === null ? null : { kept: [], removed: ['the header of gzip'], content: { pieces } };
  }
}

/** A file without the name and time in its gzip header; null for a file that is not packed. */
function withoutGzipName(file: string): readonly PackedPiece[] | null {
  const start = firstBytes(file, gzipStart);
  if (!isGzip(start)) return null;
  const header = gzipHeaderOf(start);
  if (header === null) throw new UsageError(`${quotePath(file)} is damaged: the header of gzip has no end`);
  return [header.plain, { start: header.end, end: statSync(file).size }];
}

async function unpackedIfPacked(file: string, work: Workplace): Promise<string> {
  if (!isGzip(firstBytes(file, 2))) return file;
  const target = await work.newFile();
  await unpack(file, target, work.signal);
  return target;
}
