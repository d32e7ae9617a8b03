import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';

/** A directory for one test, removed afterwards. */
export async function temporary(parent = tmpdir()): Promise<{ path: string } & AsyncDisposable> {
  const directory = await mkdtemp(path.join(parent, 'test-'));
  return { path: directory, [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }) };
}

/** Writes files by their relative names, texts packed if the name says so. A name that ends with a slash makes an empty directory. */
export async function plant(root: string, files: Readonly<Record<string, string | Buffer>>): Promise<void> {
  for (const [name, content] of Object.entries(files)) {
    const target = path.join(root, name);
    await mkdir(name.endsWith('/') ? target : path.dirname(target), { recursive: true });
    const isPacked = name.endsWith('.gz') && typeof content === 'string' && content !== '';
    if (!name.endsWith('/')) await writeFile(target, isPacked ? gzipSync(content) : content);
  }
}

/** The beginning of a DICOM file. */
export const dicom = Buffer.concat([Buffer.alloc(128), Buffer.from('DICM'), Buffer.alloc(16)]);
