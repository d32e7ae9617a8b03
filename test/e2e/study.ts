import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { play } from '../fixtures/apps/masker/play.mjs';
import { Cli, type Ended } from '../support/cli.js';
import { apps, type ServerOptions, TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';

/** A server with the app that writes masks (`test/fixtures/apps/masker`), and a client with a BIDS tree. */
export class Study implements AsyncDisposable {
  private constructor(
    readonly cli: Cli,
    readonly server: TestServer,
  ) {}

  /** @param scans the contents of the scans of subjects 1, 2 and so on */
  static async create(
    scans: readonly string[],
    flags: readonly string[] = [],
    more: Pick<ServerOptions, 'ownProcess'> = {},
  ): Promise<Study> {
    const cli = await Cli.create();
    const app = path.join(cli.home, 'masker');
    cpSync(apps.masker, app, { recursive: true });
    const subject = (index: number) => `sub-${String(index + 1).padStart(2, '0')}`;
    await plant(
      path.join(cli.directory, 'bids'),
      Object.fromEntries(
        scans.map((scan, index) => [`${subject(index)}/anat/${subject(index)}_T1w.nii`, scan]),
      ),
    );
    return new Study(cli, await TestServer.start({ play, apps: [app], flags, ...more }));
  }

  get env() {
    return { REMOTE_APP_SERVER: this.server.url };
  }

  readonly words = ['infer', '--each', 'bids', '-o', 'Out'];

  run(...more: readonly string[]): Promise<Ended> {
    return this.cli.run([...this.words, ...more], this.env);
  }

  at(...parts: readonly string[]): string {
    return path.join(this.cli.directory, ...parts);
  }

  /** The scans that the app has computed, sorted. */
  get computed(): string[] {
    const file = path.join(this.cli.home, 'counts');
    return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').sort() : [];
  }

  get table(): string[][] {
    const text = readFileSync(this.at('Out', 'cases.csv'), 'utf8');
    return text
      .trimEnd()
      .split('\r\n')
      .map((row) => row.split(','));
  }

  /** Makes the app wait before it computes. */
  close(): void {
    writeFileSync(path.join(this.cli.home, 'closed'), '');
  }

  async open(): Promise<void> {
    await rm(path.join(this.cli.home, 'closed'), { force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.open();
    await this.server[Symbol.asyncDispose]();
    await this.cli[Symbol.asyncDispose]();
  }
}
