import { createHash } from 'node:crypto';
import { symlink } from 'node:fs/promises';
import path from 'node:path';
import { plant } from './temporary.js';

/**
 * How Python's `huggingface_hub` 2.4.0 left its cache, as recorded from it: by `snapshot_download`, by `hf_hub_download` of
 * each file, with blobs that repositories share, and where `HF_HUB_DISABLE_SYMLINKS` is set.
 */
export type Layout = 'snapshot' | 'files' | 'shared' | 'copies';

const commit = 'c6d00b7d6d2def49204f50949d32bff4550f7ec3';

const tag = `Signature: 8a477f597d28d172789f06886806bc55
# This file is a cache directory tag created by huggingface_hub.
# For information about cache directory tags, see:
#\thttps://bford.info/cachedir/
`;

const hash = (algorithm: string, text: string | Buffer): string =>
  createHash(algorithm).update(text).digest('hex');

/** Plants a repository in a cache directory, at `main`. @returns its commit */
export async function plantCache(
  cache: string,
  repository: string,
  files: Readonly<Record<string, string>>,
  layout: Layout = 'snapshot',
): Promise<string> {
  const directory = path.join(cache, `models--${repository.replace('/', '--')}`);
  await plant(cache, { 'CACHEDIR.TAG': tag });
  await plant(directory, { 'refs/main': commit, 'blobs/': '', [`snapshots/${commit}/`]: '' });
  const tree: Record<string, unknown> = {};
  for (const [name, content] of Object.entries(files)) {
    const size = Buffer.byteLength(content);
    const oid = hash('sha1', `blob ${size}\0${content}`);
    const sha256 = hash('sha256', content);
    const isLarge = name.endsWith('.pt');
    const etag = isLarge ? sha256 : oid;
    tree[name] = isLarge
      ? { size, blob_id: hash('sha1', sha256), lfs_sha256: sha256, lfs_size: size, xet_hash: sha256 }
      : { size, blob_id: oid };
    const place = path.join(directory, 'snapshots', commit, name);
    if (layout === 'copies') {
      await plant(path.dirname(place), { [path.basename(name)]: content });
      continue;
    }
    await plant(path.dirname(place), { './': '' });
    await plant(path.join(cache, '.locks', path.basename(directory)), { [`${etag}.lock`]: '' });
    const blob = path.join(directory, 'blobs', etag);
    if (layout === 'shared' && isLarge) {
      await plant(cache, {
        'blobs/.huggingface-shared-blobs': '1',
        [`blobs/${sha256.slice(0, 2)}/${sha256}`]: content,
        [`blobs/${sha256.slice(0, 2)}/${sha256}.refs`]: `${path.basename(directory)}/blobs/${etag}\n`,
      });
      await symlink(`../../blobs/${sha256.slice(0, 2)}/${sha256}`, blob);
    } else {
      await plant(directory, { [`blobs/${etag}`]: content });
    }
    await symlink(path.relative(path.dirname(place), blob), place);
  }
  if (layout !== 'files') {
    const listed = JSON.stringify({ format_version: 1, files: tree }, null, 1);
    await plant(directory, { [`trees/${commit}.json`]: listed });
  }
  return commit;
}
