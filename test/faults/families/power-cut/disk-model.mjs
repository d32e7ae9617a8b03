import path from 'node:path';

/** A file, directory or link, whatever its names. `durable`: the content that a power cut cannot take. */
const fileNode = () => ({ kind: 'file', data: Buffer.alloc(0), durable: null });
const directoryNode = () => ({ kind: 'directory', entries: new Map() });

/**
 * A directory tree as programs see it, and what of it is on the disk for certain. Contents are certain after an
 * fsync of their file, names (made, renamed, removed) after an fsync of their directory. A rename is one step: it is
 * certain as soon as either directory is, and is never seen by half.
 */
export class DiskModel {
  root = directoryNode();
  /** Every change of names, in order: `changes` are [directory, name, node or null]. */
  steps = [];
  #positions = new Map();

  /** @param base the path of the tree; what lies elsewhere is not followed */
  constructor(base) {
    this.base = base;
  }

  apply({ name, process, given, args, paths, result, opened }) {
    const kind = name.replace(/(at|at2|64)$/, '');
    const fd = args[0]?.path === undefined ? undefined : args[0];
    if (kind === 'open' || kind === 'creat') this.#open(opened ?? paths[0], given, `${process}:${result}`);
    else if (/^p?writev?$/.test(kind) && fd !== undefined)
      this.#write(kind, process, fd, args, given, result);
    else if (kind === 'copy_file_range') this.#copy(process, args, result);
    else if (kind === 'ftruncate' && fd !== undefined) this.#truncate(fd.path, args.at(-1).number);
    else if (kind === 'truncate') this.#truncate(paths[0], args.at(-1).number);
    else if (kind === 'mkdir') this.#name(paths[0], directoryNode());
    else if (kind === 'symlink') this.#name(paths[1], { kind: 'link', target: args[0].bytes.toString() });
    else if (kind === 'link') this.#name(paths[1], this.#find(paths[0]));
    else if (kind === 'unlink' || kind === 'rmdir') this.#name(paths[0], null);
    else if (kind === 'rename') this.#rename(paths[0], paths[1]);
    else if ((kind === 'fsync' || kind === 'fdatasync') && fd !== undefined) this.#sync(this.#find(fd.path));
    else if (kind === 'sync' || kind === 'syncfs') this.#syncAll();
  }

  #relative(file) {
    if (file === this.base) return [];
    return file?.startsWith(`${this.base}/`)
      ? path.normalize(file.slice(this.base.length + 1)).split('/')
      : null;
  }

  #find(file) {
    const names = this.#relative(file);
    let node = names === null ? undefined : this.root;
    for (const name of names ?? []) node = node?.entries?.get(name);
    return node;
  }

  #place(file) {
    const names = this.#relative(file);
    const directory = names === null || names.length === 0 ? undefined : this.#find(path.dirname(file));
    return directory?.entries === undefined ? null : [directory, path.basename(file)];
  }

  #step(changes) {
    for (const [directory, name, node] of changes) {
      if (node === null) directory.entries.delete(name);
      else directory.entries.set(name, node);
    }
    this.steps.push({ changes, isDurable: false });
  }

  #name(file, node) {
    const place = this.#place(file);
    if (place !== null && node !== undefined) this.#step([[...place, node]]);
  }

  #rename(from, to) {
    const [source, target] = [this.#place(from), this.#place(to)];
    const node = this.#find(from) ?? null;
    const changes = [];
    if (source !== null && node !== null) changes.push([...source, null]);
    if (target !== null) changes.push([...target, node ?? fileNode()]);
    if (changes.length > 0) this.#step(changes);
  }

  #open(file, flags, key) {
    if (this.#place(file) === null) return;
    if (this.#find(file) === undefined && !flags.includes('O_DIRECTORY')) this.#name(file, fileNode());
    const node = this.#find(file);
    if (node?.kind !== 'file') return;
    if (flags.includes('O_TRUNC')) node.data = Buffer.alloc(0);
    this.#positions.set(key, { node, at: flags.includes('O_APPEND') ? null : 0 });
  }

  /** The position of a descriptor; one that was inherited, or opened for appending, is at the end. */
  #position(process, fd) {
    const known = this.#positions.get(`${process}:${fd.fd}`);
    const node = fd.isDeleted ? known?.node : this.#find(fd.path);
    if (node?.kind !== 'file') return null;
    const isKnown = known?.node === node && known.at !== null;
    const move = (by) => {
      if (isKnown) known.at += by;
    };
    return { node, at: isKnown ? known.at : node.data.length, move };
  }

  #put(node, at, bytes) {
    const data = Buffer.alloc(Math.max(node.data.length, at + bytes.length));
    node.data.copy(data);
    bytes.copy(data, at);
    node.data = data;
  }

  #write(kind, process, fd, args, given, result) {
    const position = this.#position(process, fd);
    if (position === null) return;
    const bytes = Buffer.concat(args.flatMap(({ bytes: each }) => each ?? [])).subarray(0, result);
    const at = kind.startsWith('p') ? Number(/(\d+)$/.exec(given)[1]) : position.at;
    this.#put(position.node, at, bytes);
    if (!kind.startsWith('p')) position.move(bytes.length);
  }

  #copy(process, args, result) {
    const [from, to] = args.filter(({ path: each }) => each !== undefined);
    const target = this.#position(process, to);
    const source = this.#find(from.path);
    if (target === null || source === undefined) return;
    const read = this.#position(process, from);
    const at = read.at === source.data.length ? 0 : read.at;
    this.#put(target.node, target.at, source.data.subarray(at, at + result));
    target.move(result);
  }

  #truncate(file, length) {
    const node = this.#find(file);
    if (node?.kind !== 'file') return;
    const data = Buffer.alloc(length);
    node.data.copy(data);
    node.data = data;
  }

  #sync(node) {
    if (node?.kind === 'file') node.durable = node.data;
    for (const step of this.steps) {
      if (step.changes.some(([directory]) => directory === node)) step.isDurable = true;
    }
  }

  #syncAll() {
    for (const step of this.steps) {
      step.isDurable = true;
      for (const [, , node] of step.changes) if (node?.kind === 'file') node.durable = node.data;
    }
  }
}
