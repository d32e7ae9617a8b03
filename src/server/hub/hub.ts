import { listFiles, modelInfo } from '@huggingface/hub';
import { z } from 'zod';
import { quoteName } from '../../contract/index.js';
import { answerError, connectionError, HubError, type HubQuestion } from './hub-error.js';
import type { HubSettings } from './hub-settings.js';
import { checkNames, listedSchema, maxTreeFiles, type TreeFile } from './tree.js';

/** Time limit in milliseconds for the head of an answer, and for a whole answer that is read into memory. */
const answerTime = 30_000;

/** Maximum size in bytes of an answer that is read into memory: a page of a file list has a thousand entries. */
const maxAnswer = 16 * 1024 * 1024;

/** Passes on a body, which ends with an error if it becomes too long. */
function bounded(body: ReadableStream<Uint8Array>, endpoint: string): ReadableStream<Uint8Array> {
  let length = 0;
  return body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        length += chunk.length;
        if (length <= maxAnswer) controller.enqueue(chunk);
        else controller.error(new HubError(`${endpoint} answered with more than ${maxAnswer >> 20} MiB`));
      },
    }),
  );
}

/**
 * Refuses a next page on another host: the URL comes from the hub's answer, and the host would receive the token. @throws
 * HubError
 */
function checkOrigin(url: string, endpoint: string): void {
  if (new URL(url).origin === new URL(endpoint).origin) return;
  throw new HubError(`${endpoint} sends its callers on to ${new URL(url).origin}, which is not followed`);
}

/** A `fetch` for answers that are read into memory, with limits on their time and size. @throws HubError */
const boundedFetch =
  (asked: HubQuestion, signal: AbortSignal): typeof fetch =>
  async (input, init) => {
    const { endpoint } = asked;
    try {
      checkOrigin(String(input), endpoint);
      const limit = AbortSignal.any([signal, AbortSignal.timeout(answerTime)]);
      const response = await fetch(input, { ...init, signal: limit });
      if (!response.ok) {
        await response.body?.cancel();
        throw answerError(response, asked);
      }
      const { status, headers } = response;
      return new Response(response.body && bounded(response.body, endpoint), { status, headers });
    } catch (cause) {
      signal.throwIfAborted();
      throw connectionError(cause, endpoint);
    }
  };

/** A repository at a revision. */
export interface RevisionName {
  /** `owner/name`. */
  readonly repository: string;
  /** A branch, a tag or a commit. */
  readonly revision: string;
}

const infoSchema = z.object({ sha: z.string().regex(/^[0-9a-f]{40}$/) });

const encodedPath = (name: string): string => name.split('/').map(encodeURIComponent).join('/');

/** Sends requests to the hub through its own package. */
export class Hub {
  constructor(private readonly settings: Pick<HubSettings, 'endpoint' | 'token'>) {}

  #asked(name: RevisionName): { asked: HubQuestion; common: { hubUrl: string; accessToken?: string } } {
    const { endpoint, token } = this.settings;
    const accessToken = token();
    return {
      asked: { ...name, endpoint, hasToken: accessToken !== null },
      common: { hubUrl: endpoint, ...(accessToken === null ? {} : { accessToken }) },
    };
  }

  /** The commit that a revision currently points to, from a single small request. @throws HubError */
  async commit(name: RevisionName, signal: AbortSignal): Promise<string> {
    const { asked, common } = this.#asked(name);
    return this.#answered(async () => {
      const info = await modelInfo({
        ...common,
        name: name.repository,
        revision: name.revision,
        additionalFields: ['sha'],
        fetch: boundedFetch(asked, signal),
      });
      return infoSchema.parse(info).sha;
    }, signal);
  }

  /** All files of a repository at a commit. @throws HubError */
  async files(repository: string, commit: string, signal: AbortSignal): Promise<readonly TreeFile[]> {
    const { asked, common } = this.#asked({ repository, revision: commit });
    const fetch = boundedFetch(asked, signal);
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
        if (found.length === maxTreeFiles) {
          throw new HubError(`Repository ${quoteName(repository)} has more than ${maxTreeFiles} files`);
        }
        const { path, size, oid, lfs } = listedSchema.parse(entry);
        found.push({ path, size: lfs?.size ?? size, blobId: oid, sha256: lfs?.oid ?? null });
      }
      return checkNames(found, repository);
    }, signal);
  }

  /**
   * The content of a file from an offset on, streamed as it arrives. The package's own download cannot be resumed (README.md).
   * @throws HubError, also while it is read
   */
  async *content(
    repository: string,
    commit: string,
    file: TreeFile,
    offset: number,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    const { endpoint } = this.settings;
    const { asked, common } = this.#asked({ repository, revision: commit });
    const headers = new Headers();
    if (common.accessToken) headers.set('authorization', `Bearer ${common.accessToken}`);
    if (offset > 0) headers.set('range', `bytes=${offset}-${file.size - 1}`);
    try {
      const url = `${endpoint}/${repository}/resolve/${commit}/${encodedPath(file.path)}`;
      const response = await fetch(url, { headers, signal });
      if (!response.ok || (offset > 0 && response.status !== 206)) {
        await response.body?.cancel();
        if (!response.ok) throw answerError(response, asked);
        throw new HubError(`${endpoint} does not send the rest of a file`);
      }
      yield* response.body ?? [];
    } catch (cause) {
      signal.throwIfAborted();
      throw connectionError(cause, endpoint);
    }
  }

  async #answered<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
    try {
      return await ask();
    } catch (cause) {
      signal.throwIfAborted();
      if (cause instanceof z.ZodError || cause instanceof SyntaxError) {
        throw new HubError(`${this.settings.endpoint} did not answer like a hub`);
      }
      throw connectionError(cause, this.settings.endpoint);
    }
  }
}
