import { realpath } from 'node:fs/promises';
import path from 'node:path';
import * as z from 'zod/mini';
import { byName, firstBytes, readSmallFile } from '../../files/index.js';
import { type Entry, lookAt, nothingToSend, type Obstacles, walkInputs } from './entries.js';
import { hasZarrName } from './formats.js';
import { type Tree, TreeReader } from './sending-rules.js';

/** Maximum size of metadata, in bytes: consolidated metadata describe all arrays of a store. */
const maxMetadata = 16 << 20;

const count = z.int().check(z.minimum(0));
const size = z.int().check(z.minimum(1));

const chunkKeys = z.object({
  name: z.enum(['default', 'v2']),
  configuration: z.optional(z.object({ separator: z.optional(z.enum(['/', '.'])) })),
});

const array3 = z.object({
  zarr_format: z.literal(3),
  node_type: z.literal('array'),
  shape: z.array(count),
  chunk_grid: z.object({
    name: z.literal('regular'),
    configuration: z.object({ chunk_shape: z.array(size) }),
  }),
  chunk_key_encoding: chunkKeys,
  data_type: z.optional(z.unknown()),
  codecs: z.optional(z.array(z.object({ name: z.string() }))),
});
const group3 = z.object({ zarr_format: z.literal(3), node_type: z.literal('group') });
const array2 = z.object({
  zarr_format: z.literal(2),
  shape: z.array(count),
  chunks: z.array(size),
  dimension_separator: z.optional(z.enum(['/', '.'])),
  dtype: z.optional(z.unknown()),
  compressor: z.optional(z.nullable(z.object({ id: z.string() }))),
  filters: z.optional(z.unknown()),
});
const group2 = z.object({ zarr_format: z.literal(2) });
const attributes = z.record(z.string(), z.unknown());

/** The chunks of an array, as its metadata describe them. */
interface Chunks {
  /** Number of chunks along each axis. */
  readonly counts: readonly number[];
  readonly separator: '/' | '.';
  /** Whether their keys begin with `c`. */
  readonly isMarked: boolean;
  /** Bytes of each chunk; `blosc` if the chunk's header has its size; null if only unpacking shows whether it is complete. */
  readonly bytes: number | 'blosc' | null;
}

function chunksOf(
  shape: readonly number[],
  chunks: readonly number[],
  separators: readonly ('/' | '.')[],
  how: Pick<Chunks, 'isMarked' | 'bytes'>,
): Meaning {
  if (shape.length !== chunks.length) return null;
  const counts = shape.map((length, at) => Math.ceil(length / (chunks[at] ?? 1)));
  return { isNode: true, chunks: separators.map((separator) => ({ counts, separator, ...how })) };
}

/** @param codecs the names of the codecs, in the order in which they are applied */
function bytesOf(chunks: readonly number[], type: unknown, codecs: readonly string[]): Chunks['bytes'] {
  if (codecs.at(-1) === 'blosc') return 'blosc';
  const [, bytes, bits] = /^(?:[<>|][biuf](\d)|(?:u?int|float)(\d+))$/.exec(String(type)) ?? [];
  const each = Number(bytes ?? Number(bits) / 8);
  return codecs.length === 0 && each > 0 ? chunks.reduce((product, length) => product * length, each) : null;
}

/** What a metadata file says about its directory; null if it is invalid. */
type Meaning = { readonly isNode: boolean; readonly chunks: readonly Chunks[] } | null;

const group: Meaning = { isNode: true, chunks: [] };
const described: Meaning = { isNode: false, chunks: [] };

const readers: Readonly<Record<string, (value: unknown) => Meaning>> = {
  'zarr.json': (value) => {
    if (group3.safeParse(value).success) return group;
    const array = array3.safeParse(value).data;
    if (!array) return null;
    const { name, configuration } = array.chunk_key_encoding;
    const separator = configuration?.separator ?? (name === 'default' ? '/' : '.');
    const { chunk_shape: chunks } = array.chunk_grid.configuration;
    const codecs = array.codecs?.map((each) => each.name).filter((each) => each !== 'bytes') ?? ['unknown'];
    const bytes = bytesOf(chunks, array.data_type, codecs);
    return chunksOf(array.shape, chunks, [separator], { isMarked: name === 'default', bytes });
  },
  '.zgroup': (value) => (group2.safeParse(value).success ? group : null),
  '.zarray': (value) => {
    const array = array2.safeParse(value).data;
    // Older programs did not record which separator they use.
    const separators = array?.dimension_separator ? [array.dimension_separator] : (['.', '/'] as const);
    if (!array) return null;
    const codecs = array.compressor === null && !array.filters ? [] : [array.compressor?.id ?? 'unknown'];
    const bytes = bytesOf(array.chunks, array.dtype, codecs);
    return chunksOf(array.shape, array.chunks, separators, { isMarked: false, bytes });
  },
  '.zattrs': (value) => (attributes.safeParse(value).success ? described : null),
  '.zmetadata': (value) => (z.object({ metadata: attributes }).safeParse(value).success ? described : null),
};

/** Parses a metadata file. Python writes numbers that JSON does not allow. */
function meaningOf(file: string): Meaning {
  try {
    const text = readSmallFile(file, maxMetadata);
    const json = text.replace(/(?<=[[:,\s])(NaN|-?Infinity)(?=[\],}\s])/g, 'null');
    return readers[path.basename(file)]?.(JSON.parse(json)) ?? null;
  } catch {
    return null;
  }
}

/** Whether a directory is a store: whether its own metadata are valid, whatever else it contains. */
const hasMetadata = (directory: string): boolean =>
  ['zarr.json', '.zgroup', '.zarray'].some((name) => {
    const file = path.join(directory, name);
    return lookAt(file)?.stats?.isFile() === true && meaningOf(file) !== null;
  });

/** Whether a directory is a store, by its name or by its metadata. */
export const isStore = (directory: string): boolean => hasZarrName(directory) || hasMetadata(directory);

/** Whether an array has a chunk with this key; for a directory, whether the key of a chunk may begin with it. */
function isKey(key: string, { counts, separator, isMarked }: Chunks, isDirectory: boolean): boolean {
  const parts = key.split(separator);
  if (isMarked && parts.shift() !== 'c') return false;
  // A zero-dimensional array has one chunk.
  const axes = counts.length === 0 && !isMarked ? [1] : counts;
  if (isDirectory ? separator !== '/' || parts.length >= axes.length : parts.length !== axes.length)
    return false;
  return parts.every((part, at) => /^(0|[1-9]\d{0,14})$/.test(part) && Number(part) < (axes[at] ?? 0));
}

/** Whether a chunk is complete, as far as its size shows without unpacking it. */
function isWhole({ path: file, size }: Entry, { bytes }: Chunks): boolean {
  if (bytes !== 'blosc') return size >= (bytes ?? 1);
  const start = firstBytes(file, 16);
  return start.length === 16 && size >= start.readUInt32LE(12);
}

const cutShort = 'is a chunk of a Zarr store and cut short; copy it again from the original';

/** Where a directory lies in a store. */
interface Place {
  /** The path of its array or group in the store, with a slash at its end. */
  readonly prefix: string;
  /** The beginning of the keys of the chunks in it; null for an array or a group. */
  readonly key: string | null;
  /** The arrays whose chunks it may hold. */
  readonly arrays: readonly Chunks[];
}

/** Finds the parts of a store: metadata, chunks of arrays, and the arrays and groups of groups. */
class StoreReader extends TreeReader {
  readonly #places = new Map<string, Place>();
  /** Directories that are or contain an array or group. */
  readonly #nodes = new Set<string>();

  async read(start: string): Promise<void> {
    // Links to directories are not followed: they are refused where the metadata imply them.
    const enters = ({ path: at }: Entry) => this.#places.has(at);
    const how = { obstacles: this.obstacles, wanted: () => true, enters, followsLinks: false };
    const groups: string[] = [];
    for await (const { path: directory, entries } of walkInputs(start, how)) {
      const place = this.#places.get(directory) ?? { prefix: '', key: null, arrays: [] };
      if (place.key === null) {
        groups.push(directory);
        await this.#addNode(directory, place.prefix, entries);
      } else for (const each of entries) await this.#addChunk(each, `${place.key}/${each.name}`, place);
    }
    // Inner groups come first. The store itself is skipped.
    for (const directory of groups.slice(1).reverse()) {
      if (this.#nodes.has(directory)) this.#nodes.add(path.dirname(directory));
      else this.strays.push(directory);
    }
    this.strays.sort(byName);
  }

  async #leaves({ path: at, isLink, isDirectory }: Entry, isImplied: boolean): Promise<boolean> {
    if (!(await this.leaves({ role: 'key', path: at, isLink, isImplied }))) return false;
    if (!isLink || !isDirectory) return true;
    this.obstacles.add(
      at,
      'is a link to a directory, and part of a Zarr store: put the directory itself there',
    );
    return false;
  }

  async #addNode(directory: string, prefix: string, entries: readonly Entry[]): Promise<void> {
    const found = entries.filter(({ name, isDirectory }) => !isDirectory && Object.hasOwn(readers, name));
    const arrays: Chunks[] = [];
    for (const entry of found) {
      if (!(await this.#leaves(entry, true))) continue;
      const meaning = meaningOf(entry.path);
      if (meaning === null) this.obstacles.add(entry.path, 'is not valid metadata of a Zarr store');
      else this.files.push({ name: prefix + entry.name, path: entry.path, size: entry.size });
      if (meaning?.isNode) this.#nodes.add(directory);
      arrays.push(...(meaning?.chunks ?? []));
    }
    for (const entry of entries.filter((each) => !found.includes(each))) {
      if (arrays.length > 0) await this.#addChunk(entry, entry.name, { prefix, arrays });
      else if (!entry.isDirectory) await this.#leaves(entry, false);
      else if (await this.#leaves(entry, true))
        this.#places.set(entry.path, { prefix: `${prefix}${entry.name}/`, key: null, arrays });
    }
  }

  async #addChunk(entry: Entry, key: string, { prefix, arrays }: Omit<Place, 'key'>): Promise<void> {
    const array = arrays.find((each) => isKey(key, each, entry.isDirectory));
    if (!(await this.#leaves(entry, array !== undefined))) return;
    if (entry.isDirectory) this.#places.set(entry.path, { prefix, key, arrays });
    else if (array && !isWhole(entry, array)) this.obstacles.add(entry.path, cutShort);
    else this.files.push({ name: prefix + key, path: entry.path, size: entry.size });
  }
}

/** Collects what is sent of a store. Parts that cannot be sent become obstacles. */
export async function readStore(directory: string, obstacles: Obstacles): Promise<Tree> {
  const before = obstacles.count;
  const reader = new StoreReader(await realpath(directory), obstacles);
  await reader.read(directory);
  const { files, strays, followed } = reader;
  if (!hasMetadata(directory) && obstacles.count === before) {
    const isEmpty = files.length + strays.length === 0;
    const why = 'has the name of a Zarr store and no valid metadata (zarr.json, .zgroup or .zarray)';
    obstacles.add(directory, isEmpty ? nothingToSend : why);
  }
  return { files, strays, followed };
}
