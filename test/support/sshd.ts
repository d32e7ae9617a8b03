import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import path from 'node:path';
import { placesOf } from './needs.mjs';
import { freePort } from './ports.mjs';
import { hasEnded } from './serve.mjs';
import { temporary } from './temporary.js';
import { until } from './until.mjs';

const [sshd = '', ssh = ''] = ['sshd', 'ssh'].map((tool) => placesOf(tool)[0]);

function makeKey(file: string, passphrase = ''): void {
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', passphrase, '-C', 'test', '-f', file]);
}

/**
 * Debian's ssh server, as an ordinary process on a high port with its own keys and configuration, and the system's ssh with a
 * configuration that calls it `gpu`. ssh looks for its configuration where the user database says, not in HOME: a script
 * of the same name hands it over.
 */
export class Sshd implements AsyncDisposable {
  #child: ChildProcess | null = null;

  private constructor(
    readonly directory: string,
    readonly port: number,
    private readonly remove: () => PromiseLike<void>,
  ) {}

  static async start(options: { passphrase?: string; settings?: readonly string[] } = {}): Promise<Sshd> {
    const root = await temporary();
    const server = new Sshd(root.path, await freePort(), () => root[Symbol.asyncDispose]());
    server.#configure(options.passphrase ?? '', options.settings ?? []);
    await server.listen();
    return server;
  }

  #file(name: string): string {
    return path.join(this.directory, name);
  }

  #configure(passphrase: string, settings: readonly string[]): void {
    makeKey(this.#file('host'));
    makeKey(this.#file('user'), passphrase);
    writeFileSync(this.#file('authorized'), readFileSync(this.#file('user.pub')));
    writeFileSync(
      this.#file('sshd_config'),
      [
        ...settings,
        `Port ${this.port}`,
        'ListenAddress 127.0.0.1',
        `HostKey ${this.#file('host')}`,
        `AuthorizedKeysFile ${this.#file('authorized')}`,
        'PidFile none',
        'UsePAM no',
        'StrictModes no',
        'PasswordAuthentication no',
        'PermitRootLogin yes',
        '',
      ].join('\n'),
    );
    const key = readFileSync(this.#file('host.pub'), 'utf8');
    writeFileSync(this.#file('known'), `[127.0.0.1]:${this.port} ${key}`);
    this.configure();
    mkdirSync(this.#file('bin'));
    writeFileSync(this.#file('bin/ssh'), `#!/bin/sh\nexec ${ssh} -F '${this.#file('config')}' "$@"\n`);
    chmodSync(this.#file('bin/ssh'), 0o755);
  }

  /** Writes the configuration of the client. */
  configure({ known = 'known', key = 'user' } = {}): void {
    const settings = [
      'HostName 127.0.0.1',
      `Port ${this.port}`,
      `User ${userInfo().username}`,
      `IdentityFile ${this.#file(key)}`,
      'IdentitiesOnly yes',
      'IdentityAgent none',
      `UserKnownHostsFile ${this.#file(known)}`,
      'GlobalKnownHostsFile none',
    ];
    writeFileSync(this.#file('config'), `Host gpu\n${settings.map((each) => `  ${each}\n`).join('')}`);
  }

  /** A key that the server does not know. */
  makeStrangeKey(): void {
    makeKey(this.#file('strange'));
  }

  /** What a command needs to find this ssh, and to keep its temporary files here. */
  get environment(): { PATH: string; TMPDIR: string } {
    if (!existsSync(this.#file('tmp'))) mkdirSync(this.#file('tmp'));
    return { PATH: `${this.#file('bin')}:${process.env.PATH}`, TMPDIR: this.#file('tmp') };
  }

  async listen(): Promise<void> {
    // Where sshd gives up its rights; Debian makes it when it starts the service.
    if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true, mode: 0o755 });
    const child = spawn(sshd, ['-D', '-e', '-f', this.#file('sshd_config')], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    child.stderr?.on('data', (chunk) => {
      said += chunk;
    });
    this.#child = child;
    await until('sshd listens', () => {
      if (hasEnded(child)) throw new Error(`sshd has ended: ${said}`);
      return said.includes('Server listening on ');
    });
  }

  /** Ends the server that listens; connections that it has accepted go on. */
  async stop(): Promise<void> {
    const child = this.#child;
    if (!child || hasEnded(child)) return;
    const ended = once(child, 'exit');
    child.kill();
    await ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await this.remove();
  }
}
