import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { Cli, type Ended } from '../support/cli.js';
import { type ServerOptions, TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';

/**
 * Notes each scan that it computes in `counts`, waits while there is a file `closed`, fails for a scan that says so, and writes a
 * mask with numbers about it. Both files lie beside its directory, whose content is its version.
 */
const program = `
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
const { argv } = process;
const after = (flag) => argv[argv.indexOf(flag) + 1];
const scan = readFileSync(after('--inputs'), 'utf8');
const beside = path.dirname(path.dirname(argv[1]));
appendFileSync(path.join(beside, 'counts'), scan + '\\n');
while (existsSync(path.join(beside, 'closed'))) await new Promise((resolve) => setTimeout(resolve, 10));
if (scan.includes('bad')) {
  console.log('This scan is not a head' + (scan.includes('.') ? '.' : ''));
  process.exit(3);
}
const output = after('--output');
mkdirSync(output, { recursive: true });
writeFileSync(path.join(output, 'mask.nii'), 'mask of ' + scan);
writeFileSync(path.join(output, 'measurements.json'), JSON.stringify({ cases: [{ letters: scan.length }] }));
`;

/** A server with this app, and a client with a BIDS tree. */
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
    await plant(app, {
      'main.mjs': program,
      'app.json': JSON.stringify({
        display_name: 'Masker',
        description: 'x',
        short_description: 'x',
        tta: 8,
        mc_dropout: 0,
        outputs: { Map: { display_name: 'Map', volume_type: 'VOLUME', unit: 'ms' } },
        command: ['node', 'main.mjs'],
      }),
    });
    const subject = (index: number) => `sub-${String(index + 1).padStart(2, '0')}`;
    await plant(
      path.join(cli.directory, 'bids'),
      Object.fromEntries(
        scans.map((scan, index) => [`${subject(index)}/anat/${subject(index)}_T1w.nii`, scan]),
      ),
    );
    return new Study(cli, await TestServer.start({ runners: true, apps: [app], flags, ...more }));
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
