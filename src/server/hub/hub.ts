import { downloadFile, listFiles, modelInfo } from '@huggingface/hub';
import { z } from 'zod';
import { quoteName } from '../../contract/quote.js';
import { boundedFetch, fileFetch } from './bounded-fetch.js';
import { type Asked, connectionError, HubError } from './hub-error.js';
import type { HubSettings } from './hub-settings.js';
import { checkNames, listedSchema, mostTreeFiles, type TreeFile } from './tree.js';

/** A repository at a revision. */
export interface RevisionName {
  readonly repository: string;
  readonly revision: string;
}

const infoSchema = z.object({ sha: z.string().regex(/^[0-9a-f]{40}$/) });

const encodedPath = (name: string): string => name.split('/').map(encodeURIComponent).join('/');

/** The hub, asked through its own package. Imported lazily: only a server with repositories needs it. */
export class Hub {
  constructor(private readonly settings: Pick<HubSettings, 'endpoint' | 'token'>) {}

  #asked(name: RevisionName): { asked: Asked; common: { hubUrl: string; accessToken?: string } } {
    const { endpoint, token } = this.settings;
    const accessToken = token();
    return {
      asked: { ...name, endpoint, hasToken: accessToken !== null },
      common: { hubUrl: endpoint, ...(accessToken === null ? {} : { accessToken }) },
    };
  }

  /** The commit that a revision is at now: one small question. @throws HubError */
  async commit(name: RevisionName, signal: AbortSignal): Promise<string> {
    const { asked, common } = this.#asked(name);
    return this.#answered(async () => {
      const info = await modelInfo({
        ...common,
        name: name.repository,
        revision: name.revision,
        additionalFields: ['sha'],
        fetch: boundedFetch({ asked, signal }),
      });
      return infoSchema.parse(info).sha;
    }, signal);
  }

  /** All files of a repository at a commit. @throws HubError */
  async files(repository: string, commit: string, signal: AbortSignal): Promise<readonly TreeFile[]> {
    const { asked, common } = this.#asked({ repository, revision: commit });
    const fetch = boundedFetch({ asked, signal });
    const found: TreeFile[] = [];
    return this.#answered(async () => {
      for await (const entry of listFiles({
        ...common,
        repo: repository,
        revision: commit,
        recursive: true,
        fetch,
      })) {
        if (entry.type !== 'file') continue;
        if (found.length === mostTreeFiles) {
          throw new HubError(`Repository ${quoteName(repository)} has more than ${mostTreeFiles} files`);
        }
        const { path, size, oid, lfs, xetHash } = listedSchema.parse(entry);
        found.push({
          path,
          size: lfs?.size ?? size,
          blobId: oid,
          sha256: lfs?.oid ?? null,
          xetHash: xetHash ?? null,
        });
      }
      return checkNames(found, repository);
    }, signal);
  }

  /**
   * The content of a file from a byte on, as it comes.
   * @throws HubError, also while it is read
   */
  async *content(
    repository: string,
    commit: string,
    file: TreeFile,
    from: number,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    const { endpoint } = this.settings;
    const { asked, common } = this.#asked({ repository, revision: commit });
    let problem: HubError | null = null;
    const onError = (error: HubError) => {
      problem = error;
    };
    const url = `${endpoint}/${repository}/resolve/${commit}/${encodedPath(file.path)}`;
    try {
      const whole = await downloadFile({
        ...common,
        repo: repository,
        path: file.path,
        revision: commit,
        // What it would ask for first is known from the list of files.
        downloadInfo: { size: file.size, etag: file.sha256 ?? file.blobId, url },
        // As one request, which can be taken up where it ended.
        xet: false,
        fetch: fileFetch({ asked, signal, onError }),
      });
      if (whole === null) throw new HubError(`${endpoint} has no ${quoteName(file.path)}`);
      const blob = from === 0 ? whole : whole.slice(from);
      for await (const chunk of blob.stream()) yield chunk;
    } catch (cause) {
      signal.throwIfAborted();
      throw problem ?? connectionError(cause, endpoint);
    }
  }

  async #answered<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
    try {
      return await ask();
    } catch (cause) {
      signal.throwIfAborted();
      if (cause instanceof z.ZodError || cause instanceof SyntaxError) {
        throw new HubError(`${this.settings.endpoint} answered with something else than a hub does`);
      }
      throw connectionError(cause, this.settings.endpoint);
    }
  }
}
