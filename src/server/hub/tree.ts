import path from 'node:path';
import { z } from 'zod';
import { quoteName } from '../../contract/index.js';
import { isSafeName } from '../../files/index.js';
import { HubError } from './hub-error.js';

/** A file of a repository at a commit. */
export interface TreeFile {
  /** The file's path in the repository, with slashes. */
  readonly path: string;
  readonly size: number;
  /** Git's hash of the file's content or, if the content is stored outside Git, of the pointer to it. */
  readonly blobId: string;
  /** SHA-256 of a file whose content is stored outside Git; null if it is stored in Git. */
  readonly sha256: string | null;
}

/** The name of a file's content in the cache, which is the ETag that the hub sends. */
export const blobName = ({ sha256, blobId }: TreeFile): string => sha256 ?? blobId;

/** Maximum number of files in a repository. */
export const maxTreeFiles = 20_000;

/** Maximum depth of a file in its repository. */
const maxDepth = 32;

const hash40 = z.string().regex(/^[0-9a-f]{40}$/);
const hash64 = z.string().regex(/^[0-9a-f]{64}$/);
const size = z.number().int().min(0);

/** An entry of the hub's file list. */
export const listedSchema = z.object({
  type: z.string(),
  path: z.string(),
  size,
  oid: hash40,
  lfs: z.object({ oid: hash64, size }).nullish(),
});

/** `trees/<commit>.json` in the cache, where `huggingface_hub` stores the file list of a commit. */
const storedSchema = z.object({
  format_version: z.literal(1),
  files: z.record(
    z.string(),
    z.object({
      size,
      blob_id: hash40,
      lfs_sha256: hash64.nullish(),
      lfs_size: size.nullish(),
    }),
  ),
});

/** Whether a path in a repository stays below any directory that it is joined to, on every system. */
function isContained(name: string): boolean {
  const parts = name.split('/');
  return (
    parts.length <= maxDepth &&
    name.length <= 1024 &&
    parts.every((part) => isSafeName(part) && !/^[a-z]:/i.test(part))
  );
}

/** Checks the paths of files. @throws HubError for one that could lead out of the cache */
export function checkNames(files: readonly TreeFile[], repository: string): readonly TreeFile[] {
  const wrong = files.find((file) => !isContained(file.path));
  if (wrong === undefined) return files;
  throw new HubError(
    `Repository ${quoteName(repository)} has a file named ${quoteName(wrong.path)}, which is no name for a file of the cache`,
  );
}

/** Parses a stored file list. @throws for any other text */
export function parseTree(text: string): TreeFile[] {
  const { files } = storedSchema.parse(JSON.parse(text));
  return Object.entries(files).map(([path, file]) => ({
    path,
    size: file.lfs_size ?? file.size,
    blobId: file.blob_id,
    sha256: file.lfs_sha256 ?? null,
  }));
}

export function formatTree(files: readonly TreeFile[]): string {
  const rows = files.map(({ path, size, blobId, sha256 }) => [
    path,
    {
      size,
      blob_id: blobId,
      ...(sha256 === null ? {} : { lfs_sha256: sha256, lfs_size: size }),
    },
  ]);
  return JSON.stringify({ format_version: 1, files: Object.fromEntries(rows) }, null, 1);
}

/** The files of an app by their paths in the app's folder, or all files for an app at the top of the repository. */
export function filesOfApp(files: readonly TreeFile[], folder: string | null): Map<string, TreeFile> {
  if (folder === null) return new Map(files.map((file) => [file.path, file]));
  const prefix = `${folder}/`;
  const inside = files.filter((file) => file.path.startsWith(prefix));
  return new Map(inside.map((file) => [path.posix.relative(folder, file.path), file]));
}
