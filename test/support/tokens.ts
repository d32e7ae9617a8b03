import { chmodSync, mkdirSync, mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { editTokens, withNewSecret, withoutToken, withToken } from '../../src/access/change-tokens.js';
import type { Role } from '../../src/access/principal.js';
import { newToken, type TokenDocument } from '../../src/access/token-file.js';
import { Api } from './api.js';
import type { TestServer } from './server.js';

/** A file of named tokens in its own directory, as an admin keeps it. */
export class TestTokens implements AsyncDisposable {
  readonly #root = mkdtempSync(path.join(tmpdir(), 'remote-app-test-'));
  readonly directory = path.join(this.#root, 'etc');
  readonly file = path.join(this.directory, 'tokens.json');
  readonly #tokens = new Map<string, string>();

  constructor() {
    mkdirSync(this.directory);
    chmodSync(this.directory, 0o755);
  }

  /** Creates a token. */
  create(
    name: string,
    {
      role = 'user',
      expires = null,
      apps = null,
    }: { role?: Role; expires?: string | null; apps?: readonly string[] | null } = {},
  ): string {
    const token = newToken();
    editTokens(this.file, (before) => withToken(before, { name, role, expires, token, apps }));
    this.#tokens.set(name, token);
    return token;
  }

  revoke(name: string): void {
    editTokens(this.file, (before) => withoutToken(before, name));
  }

  rotate(name: string): string {
    const token = newToken();
    editTokens(this.file, (before) => withNewSecret(before, name, token, undefined));
    this.#tokens.set(name, token);
    return token;
  }

  /** Changes the file in any other way. */
  edit(change: (before: TokenDocument) => TokenDocument): void {
    editTokens(this.file, change);
  }

  /** The most recent token of that name. */
  of(name: string): string {
    const token = this.#tokens.get(name);
    if (token === undefined) throw new Error(`No token ${name}`);
    return token;
  }

  /** The service as the holder of that token sees it. */
  api(server: TestServer, name: string, app = 'probe'): Api {
    const token = this.of(name);
    return new Api(
      {
        get url() {
          return server.url;
        },
        token,
      },
      app,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#root, { recursive: true, force: true });
  }
}
