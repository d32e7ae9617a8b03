import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { json, type Received, ScriptedServer } from './scripted-server.js';

const digest = (algorithm: string, ...parts: (string | Buffer)[]): string => {
  const hash = createHash(algorithm);
  for (const part of parts) hash.update(part);
  return hash.digest('hex');
};

/** A file as Git and the hub's storage have it. */
interface HubFile {
  readonly content: Buffer;
  /** Git's name of it: of the pointer where it is stored beside Git. */
  readonly oid: string;
  /** SHA-256 of a file that is stored beside Git; null for a file in Git. */
  readonly sha256: string | null;
}

const gitHash = (content: Buffer): string => digest('sha1', `blob ${content.length}\0`, content);

/** As the hub's `.gitattributes` has it: weights are stored beside Git. */
function hubFile(name: string, given: string | Buffer): HubFile {
  const content = Buffer.from(given);
  if (!/\.(pt|bin|safetensors)$/.test(name)) return { content, oid: gitHash(content), sha256: null };
  const sha256 = digest('sha256', content);
  const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${sha256}\nsize ${content.length}\n`;
  return { content, oid: gitHash(Buffer.from(pointer)), sha256 };
}

type Files = Readonly<Record<string, string | Buffer>>;

interface Repository {
  readonly commits: Map<string, ReadonlyMap<string, HubFile>>;
  readonly refs: Map<string, string>;
  /** Who may read it; null means everybody. */
  token: string | null;
  /** Everybody sees a gated repository, but its files are refused. */
  isGated: boolean;
}

/** An answer that replaces the usual one, chosen by the request; `hold` never answers. */
type Failure = (request: Received) => { status: number; headers?: Record<string, string> } | 'hold' | null;

const first = (text: string | undefined): string => text ?? '';

/**
 * The hub's API as far as apps need it, in the shapes that huggingface.co answers with, on one port; and the storage of
 * large files, which the hub redirects to, on another.
 */
export class FakeHub {
  readonly #repositories = new Map<string, Repository>();
  #failure: Failure = () => null;
  /** Entries on a page of a list of files. */
  pageSize = 1000;
  /** Bytes after which the storage cuts the connection, once for each number. */
  readonly cuts: number[] = [];
  /** Answers of the storage in place of the content. */
  swapped: Buffer | null = null;

  private constructor(
    private readonly hub: ScriptedServer,
    private readonly storage: ScriptedServer,
  ) {}

  static async start(): Promise<FakeHub> {
    const storage = await ScriptedServer.start((request, response) => fake.#store(request, response));
    const hub = await ScriptedServer.start((request, response) => fake.#answer(request, response));
    const fake: FakeHub = new FakeHub(hub, storage);
    return fake;
  }

  get url(): string {
    return this.hub.url;
  }

  /** Requests for the hub, as `GET /path`. */
  get requests(): string[] {
    return this.hub.received.map(({ method, url }) => `${method} ${first(url.split('?')[0])}`);
  }

  get received(): readonly Received[] {
    return this.hub.received;
  }

  /** Requests for the storage of large files. */
  get stored(): readonly Received[] {
    return this.storage.received;
  }

  forget(): void {
    this.hub.received.length = 0;
    this.storage.received.length = 0;
  }

  /** From now on, answers with the failures that the function returns. */
  fail(failure: Failure): void {
    this.#failure = failure;
  }

  /** Commits to a repository, which is created if it does not exist. @returns the commit's hash */
  commit(repository: string, files: Files, revision = 'main'): string {
    const found = this.#repositories.get(repository) ?? {
      commits: new Map(),
      refs: new Map(),
      token: null,
      isGated: false,
    };
    this.#repositories.set(repository, found);
    const commit = digest('sha1', `${repository} ${found.commits.size}`);
    found.commits.set(
      commit,
      new Map(Object.entries(files).map(([name, content]) => [name, hubFile(name, content)])),
    );
    found.refs.set(revision, commit);
    return commit;
  }

  /** Lets only this token read a repository, or only its files. */
  guard(repository: string, token: string, isGated = false): void {
    const found = this.#repositories.get(repository);
    if (!found) throw new Error(`There is no ${repository}`);
    found.token = token;
    found.isGated = isGated;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.hub[Symbol.asyncDispose](), this.storage[Symbol.asyncDispose]()]);
  }

  #answer(request: Received, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(request.url, this.url);
    const failure = this.#failure(request);
    if (failure === 'hold') return;
    if (failure) {
      json(response, failure.status, { error: 'planted' }, failure.headers);
      return;
    }
    const path = decodeURIComponent(pathname);
    const [, info, infoAt = 'main'] = /^\/api\/models\/([^/]+\/[^/]+)(?:\/revision\/(.+))?$/.exec(path) ?? [];
    if (info !== undefined) {
      this.#info(request, response, info, infoAt);
      return;
    }
    const [, tree, at = '', below = ''] =
      /^\/api\/models\/([^/]+\/[^/]+)\/tree\/([^/]+)((?:\/.+)?)$/.exec(path) ?? [];
    if (tree !== undefined) {
      this.#tree(request, response, tree, at, below.slice(1), Number(searchParams.get('cursor')));
      return;
    }
    const [, resolved, commit = '', name = ''] =
      /^\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/.exec(path) ?? [];
    if (resolved !== undefined) {
      this.#resolve(request, response, resolved, commit, name);
      return;
    }
    json(response, 404, { error: 'Sorry, we cannot find the page you are looking for.' });
  }

  /** The repository at a commit, if the request may see it; otherwise the refusal has been sent. */
  #open(request: Received, response: ServerResponse, name: string, revision: string, wantsFile: boolean) {
    const found = this.#repositories.get(name);
    const token = request.headers.authorization?.replace('Bearer ', '');
    const isHidden = found?.token !== null && found?.token !== token;
    if (found && isHidden && found.isGated && wantsFile) {
      const detail = `Access to model ${name} is restricted. You must have access to it and be authenticated to access it. Please log in.`;
      json(response, 401, { error: detail }, { 'x-error-code': 'GatedRepo', 'x-error-message': detail });
      return null;
    }
    if (!found || (isHidden && !found.isGated)) {
      // The answer does not reveal whether a private repository has that name.
      const headers = { 'x-error-code': 'RepoNotFound', 'x-error-message': 'Repository not found' };
      json(response, token === undefined ? 401 : 404, { error: 'Repository not found' }, headers);
      return null;
    }
    const commit = found.commits.has(revision) ? revision : found.refs.get(revision);
    const files = found.commits.get(first(commit));
    if (commit !== undefined && files !== undefined) return { commit, files };
    const headers = { 'x-error-code': 'RevisionNotFound', 'x-error-message': `Invalid rev id: ${revision}` };
    json(response, 404, { error: `Invalid rev id: ${revision}` }, headers);
    return null;
  }

  #info(request: Received, response: ServerResponse, name: string, revision: string): void {
    const opened = this.#open(request, response, name, revision, false);
    if (opened === null) return;
    json(response, 200, {
      _id: '66a1f0d1b0f2c3d4e5f60718',
      id: name,
      modelId: name,
      author: first(name.split('/')[0]),
      sha: opened.commit,
      lastModified: '2026-03-02T10:11:12.000Z',
      private: false,
      gated: this.#repositories.get(name)?.isGated ? 'auto' : false,
      disabled: false,
      downloads: 42,
      likes: 3,
      tags: ['region:us'],
      siblings: [...opened.files.keys()].map((rfilename) => ({ rfilename })),
      createdAt: '2025-01-02T03:04:05.000Z',
    });
  }

  #tree(
    request: Received,
    response: ServerResponse,
    name: string,
    commit: string,
    below: string,
    from: number,
  ): void {
    const opened = this.#open(request, response, name, commit, false);
    if (opened === null) return;
    const folders = new Set([...opened.files.keys()].flatMap((each) => each.split('/').slice(0, -1)));
    const entries = [
      ...[...folders].map((path) => ({ type: 'directory', oid: digest('sha1', path), size: 0, path })),
      ...[...opened.files].map(([path, { content, oid, sha256 }]) => ({
        type: 'file',
        oid,
        size: content.length,
        ...(sha256 === null
          ? {}
          : {
              lfs: { oid: sha256, size: content.length, pointerSize: 134 },
              xetHash: digest('sha256', sha256),
            }),
        path,
      })),
    ];
    const inside = entries.filter((entry) => below === '' || entry.path.startsWith(`${below}/`));
    const next = from + this.pageSize;
    const more = `<${this.url}/api/models/${name}/tree/${commit}?recursive=True&cursor=${next}>; rel="next"`;
    json(response, 200, inside.slice(from, next), next < inside.length ? { link: more } : {});
  }

  #resolve(request: Received, response: ServerResponse, name: string, revision: string, path: string): void {
    const opened = this.#open(request, response, name, revision, true);
    if (opened === null) return;
    const file = opened.files.get(path);
    const common = { 'x-repo-commit': opened.commit, 'accept-ranges': 'bytes', 'x-request-id': 'Root=1-2-3' };
    if (!file) {
      const headers = { 'x-error-code': 'EntryNotFound', 'x-error-message': 'Entry not found' };
      json(response, 404, { error: 'Entry not found' }, { ...common, ...headers });
      return;
    }
    const { content, oid, sha256 } = file;
    if (sha256 === null) {
      send(request, response, content, { ...common, etag: `"${oid}"` });
      return;
    }
    response.writeHead(302, {
      ...common,
      'x-linked-size': content.length,
      'x-linked-etag': `"${sha256}"`,
      etag: `"${oid}"`,
      location: `${this.storage.url}/repos/${name}/${sha256}?X-Amz-Signature=0123`,
    });
    response.end();
  }

  #store(request: Received, response: ServerResponse): void {
    const sha256 = first(/\/([0-9a-f]{64})\?/.exec(request.url)?.[1]);
    const all = [...this.#repositories.values()].flatMap(({ commits }) => [...commits.values()]);
    const file = all.flatMap((files) => [...files.values()]).find((each) => each.sha256 === sha256);
    const content = this.swapped ?? file?.content ?? Buffer.alloc(0);
    send(request, response, content, { etag: `"${sha256.slice(0, 32)}"` }, this.cuts.shift());
  }
}

/** Sends a file, or the range of it that was asked for; cuts the connection after so many bytes. */
function send(
  request: Received,
  response: ServerResponse,
  content: Buffer,
  headers: Record<string, string>,
  cut?: number,
): void {
  const [, from = '', to = ''] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? [];
  const start = Number(from);
  const end = to === '' ? content.length : Math.min(Number(to) + 1, content.length);
  const body = content.subarray(start, end);
  response.writeHead(from === '' ? 200 : 206, {
    ...headers,
    'content-length': body.length,
    ...(from === '' ? {} : { 'content-range': `bytes ${start}-${end - 1}/${content.length}` }),
  });
  if (cut === undefined || request.method === 'HEAD') {
    response.end(request.method === 'HEAD' ? undefined : body);
    return;
  }
  response.write(body.subarray(0, cut), () => response.destroy());
}
