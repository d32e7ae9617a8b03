import { execFile, execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { entryPath } from '../../src/archive/entry-places.js';
import { packDirectory, packTo } from '../../src/archive/pack.js';
import { EntryPacker } from '../../src/archive/pack-entry.js';
import { ZipWriter } from '../../src/archive/zip-writer.js';
import { Notes } from '../../src/files/index.js';
import { built } from '../support/built.js';
import { plant, temporary } from '../support/temporary.js';
import { unzip } from '../support/unzip.mjs';

/** Packs into memory; `files` are the contents by name. */
async function pack(source: string, options = {}) {
  const sink = new PassThrough();
  const [bytes, packed] = await Promise.all([buffer(sink), packTo(sink, source, options)]);
  const files = Object.fromEntries([...(await unzip(bytes))].map(([name, each]) => [name, each.toString()]));
  return { ...packed, files };
}

const packModule = built('archive/pack.js');

/** Packs in a process without root's rights, like a server of an ordinary user. */
async function packAsUser(
  source: string | readonly object[],
  archive: string,
  options: object,
  pack = 'packDirectory',
): Promise<{ notes: string[] }> {
  // It changes its user after it has read its modules, which only root may be able to read.
  const script = `import { ${pack} } from ${JSON.stringify(packModule)};
    if (process.getuid() === 0) {
      process.setgroups([]);
      process.setgid(65534);
      process.setuid(65534);
    }
    console.log(JSON.stringify(await ${pack}(...${JSON.stringify([source, archive, options])})));`;
  const program = ['--input-type=module', '-e', script];
  const { stdout } = await promisify(execFile)(process.execPath, program);
  return JSON.parse(stdout);
}

/** Gives a directory to the user of `packAsUser`. */
function handOver(root: string) {
  if (process.getuid?.() !== 0) return;
  for (const name of ['', ...readdirSync(root, { recursive: true, encoding: 'utf8' })]) {
    chownSync(path.join(root, name), 65_534, 65_534);
  }
}

describe('a file that cannot be read', () => {
  test('A file that cannot be read is left out with a note, or made readable if its owner may do that', async () => {
    await using root = await temporary();
    await plant(root.path, {
      'source/a': 'a',
      'source/locked': 'x',
      'source/d/below': 'y',
      'source/e/below': '',
      'source/z': 'z',
    });
    handOver(root.path);
    const source = path.join(root.path, 'source');
    chmodSync(path.join(source, 'locked'), 0);
    chmodSync(path.join(source, 'd'), 0);
    // It can be listed, but its entries cannot be opened.
    chmodSync(path.join(source, 'e'), 0o400);
    const archive = path.join(root.path, 'a.zip');
    const names = async () => [...(await unzip(readFileSync(archive))).keys()].sort();

    const { notes } = await packAsUser(source, archive, {});
    expect(await names()).toEqual(['a', 'z']);
    expect(notes).toEqual([
      expect.stringMatching(/^'locked' cannot be read: permission denied \(EACCES\), and was left out$/),
      expect.stringMatching(/^'d\/' cannot be read: permission denied \(EACCES\), and was left out$/),
      expect.stringMatching(/^'e\/below' cannot be read: permission denied \(EACCES\), and was left out$/),
    ]);
    const listed = ['a', 'locked'].map((name) => ({ name, path: path.join(source, name) }));
    await expect(packAsUser(listed, archive, {}, 'packListed')).rejects.toThrow('EACCES');

    expect((await packAsUser(source, archive, { openUp: true })).notes).toEqual([]);
    expect(await names()).toEqual(['a', 'd/below', 'e/below', 'locked', 'z']);
  });

  test('A file that changes while it is packed is cut at its initial length or earlier, with a note', async () => {
    await using root = await temporary();
    const source = path.join(root.path, 'source');
    const whole = 'x'.repeat(3_000_000);
    const changes = {
      "'a' became shorter while it was packed": [1_500_000, 1_500_000],
      "'a' changed while it was packed": [4_000_000, 3_000_000],
    } as const;
    for (const [note, [size, packed]] of Object.entries(changes)) {
      await plant(source, { a: whole });
      const onProgress = () => truncateSync(path.join(source, 'a'), size);
      const { files, notes } = await pack(source, { onProgress });
      expect([notes, files.a?.length]).toEqual([[note], packed]);
    }
  });

  test('A file that cannot be read does not count among the packed files, whatever its size and its name', async () => {
    // The memory of this process at address 0: opening this file is allowed, and reading it fails.
    await using broken = await open('/proc/self/mem');
    const stats = await broken.stat();
    const sink = new PassThrough();
    const zip = new ZipWriter(sink, undefined, false);
    const notes = new Notes();
    const packer = new EntryPacker(zip, { notes, strict: false, isStored: false, onMore: () => {} });
    for (const [name, size] of [
      ['small', 10],
      ['large', 70_000],
      ['a.gz', 70_000],
    ] as const)
      await packer.add({ name, stats: Object.assign(stats, { size }), file: broken });
    const [bytes] = await Promise.all([buffer(sink), zip.finish()]);
    expect((await unzip(bytes)).size).toBe(0);
    expect([packer.files, packer.entries, packer.bytes]).toEqual([0, 3, 0]);
    const left = (name: string) => `'${name}' cannot be read: i/o error (EIO), and was left out`;
    expect(notes.list()).toEqual(['small', 'large', 'a.gz'].map(left));
  });

  test('A socket, a FIFO or a link is named once in the notes', async () => {
    await using root = await temporary();
    const source = path.join(root.path, 'source');
    await plant(source, { a: 'a' });
    execFileSync('mkfifo', [path.join(source, 'fifo')]);
    symlinkSync('/etc/passwd', path.join(source, 'link'));
    const { files, notes } = await pack(source);
    expect(files).toEqual({ a: 'a' });
    expect(notes).toEqual([
      "'fifo' is neither a file nor a directory, and was left out",
      "'link' is a link that leads to no file of this directory, and was left out",
    ]);
  });
});

describe('a link or directory that a job made', () => {
  test('A link or directory that a job made instead of its output is not packed', async () => {
    await using root = await temporary();
    await plant(root.path, { 'secret/a': 'secret', file: '' });
    symlinkSync('secret', path.join(root.path, 'link'));
    for (const name of ['link', 'file', 'missing']) {
      await expect(pack(path.join(root.path, name))).rejects.toMatchObject({ code: /ENOTDIR|ELOOP|ENOENT/ });
    }
  });

  test('A link or directory that a job made with the name of the partial archive is removed, and not written through', async () => {
    await using root = await temporary();
    await plant(root.path, { 'source/a': 'a', outside: 'untouched' });
    const archive = path.join(root.path, 'a.zip');
    symlinkSync('outside', `${archive}.partial`);
    await packDirectory(path.join(root.path, 'source'), archive);
    expect(readFileSync(path.join(root.path, 'outside'), 'utf8')).toBe('untouched');
    expect(statSync(archive).mode & 0o777).toBe(0o600);
    rmSync(archive);
    mkdirSync(`${archive}.partial/d`, { recursive: true });
    mkdirSync(`${archive}/d`, { recursive: true });
    await packDirectory(path.join(root.path, 'source'), archive);
    expect(readdirSync(root.path).sort()).toEqual(['a.zip', 'outside', 'source']);
    expect(statSync(archive).isFile()).toBe(true);
  });

  test('A directory nested too deeply to be extracted is left out with a note', async () => {
    await using root = await temporary();
    await plant(root.path, { [`${'d/'.repeat(63)}x`]: 'x', [`${'d/'.repeat(64)}y`]: 'y' });
    const { files, notes } = await pack(root.path);
    expect(files).toEqual({ [`${'d/'.repeat(63)}x`]: 'x' });
    expect(entryPath('/', `${'d/'.repeat(63)}x`)).not.toBeNull();
    expect(notes).toEqual([expect.stringContaining('lies more than 63 directories deep')]);
  });

  test('A path that is too long for the system is left out with a note', async () => {
    await using root = await temporary();
    const source = mkdtempSync(path.join(root.path, 'source-'));
    writeFileSync(path.join(source, 'z'), 'z');
    // A process whose own paths stay short.
    const deep =
      "for (let level = 0; level < 100; level++) fs.mkdirSync('d'.repeat(200)), process.chdir('d'.repeat(200)), fs.writeFileSync('x', '')";
    execFileSync(process.execPath, ['-e', deep], { cwd: source });
    const { files, notes } = await pack(source);
    expect(files.z).toBe('z');
    expect(notes).toHaveLength(1);
    expect(notes[0]).toContain('ENAMETOOLONG');
    const names = Object.keys(files);
    // Paths longer than PATH_MAX could not be extracted either.
    expect(names.length).toBeGreaterThan(10);
    expect(names.map((name) => entryPath('/', name))).not.toContain(null);
    // Node's own rm cannot: the path is too long.
    execFileSync('rm', ['-rf', source]);
  });
});
