import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { until } from '../support/until.mjs';

/** Layers an empty file system over this machine's, with what a chroot needs, and waits. */
const layer = `
set -e
mount -t tmpfs tmpfs "$1/layer"
mkdir "$1/layer/upper" "$1/layer/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/layer/upper,workdir=$1/layer/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
mount -t tmpfs tmpfs "$1/root/run"
mount -t tmpfs -o mode=1777 tmpfs "$1/root/tmp"
mount --bind "$1/shared" "$1/root/mnt"
echo ready
exec sleep infinity
`;

/** How a command inside has ended. */
export interface Done {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * This machine as a Debian of the test's own: what is written or started in it, as by installing a package, is gone with
 * it. Needs root, and a kernel that has overlays.
 */
export class DebianRoot {
  private constructor(
    private readonly place: string,
    private readonly holder: ChildProcess,
    /** The first process inside, by its id outside. */
    private readonly init: number,
  ) {}

  /** Whether this machine can do it. */
  static isPossible(): boolean {
    const probe =
      'd=$(mktemp -d); mount -t tmpfs t $d; mkdir $d/u $d/w $d/m; mount -t overlay o -o lowerdir=/,upperdir=$d/u,workdir=$d/w $d/m';
    return (
      process.getuid?.() === 0 &&
      spawnSync('dpkg', ['--version']).status === 0 &&
      spawnSync('unshare', ['-m', 'sh', '-c', probe]).status === 0
    );
  }

  static async create(): Promise<DebianRoot> {
    const place = mkdtempSync(path.join(tmpdir(), 'remote-app-debian-'));
    for (const name of ['layer', 'shared']) mkdirSync(path.join(place, name), { mode: 0o755 });
    const flags = ['--mount', '--pid', '--fork', '--kill-child', '--propagation', 'private'];
    const holder = spawn('unshare', [...flags, 'sh', '-c', layer, 'sh', place], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(holder.stdout as NodeJS.ReadableStream, 'data');
    const children = readFileSync(`/proc/${holder.pid}/task/${holder.pid}/children`, 'utf8');
    return new DebianRoot(place, holder, Number(children.trim().split(' ')[0]));
  }

  /** A directory of the outside that is `/mnt` inside. */
  get shared(): string {
    return path.join(this.place, 'shared');
  }

  /** Program and arguments that run a command inside. */
  #enter(words: readonly string[], env: Readonly<Record<string, string>>): string[] {
    const own = {
      PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
      HOME: '/root',
      DEBIAN_FRONTEND: 'noninteractive',
      ...env,
    };
    const variables = Object.entries(own).map(([name, value]) => `${name}=${value}`);
    const inside = ['nsenter', '-t', String(this.init), '-m', '-p', 'chroot', path.join(this.place, 'root')];
    return [...inside, 'env', '-i', ...variables, ...words];
  }

  /** Runs a command inside to its end. */
  run(words: readonly string[], env: Readonly<Record<string, string>> = {}): Done {
    const [program = '', ...args] = this.#enter(words, env);
    const { status: code, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' });
    return { code, stdout, stderr };
  }

  /** The output of a command that must succeed. */
  output(words: readonly string[], env: Readonly<Record<string, string>> = {}): string {
    const { code, stdout, stderr } = this.run(words, env);
    if (code !== 0) throw new Error(`${words.join(' ')} ended with ${code}: ${stdout}${stderr}`);
    return stdout;
  }

  /** Starts a command inside. */
  start(words: readonly string[], env: Readonly<Record<string, string>> = {}): ChildProcess {
    const [program = '', ...args] = this.#enter(words, env);
    return spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.holder.kill('SIGKILL');
    await until('nothing is left inside', () => !isThere(this.init));
    rmSync(this.place, { recursive: true, force: true });
  }
}

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Makes a package that has nothing but its name, where this machine has what it stands for without a package. */
export function emptyPackage(name: string, version: string, directory: string): string {
  const stage = path.join(directory, name);
  execFileSync('mkdir', ['-p', path.join(stage, 'DEBIAN')]);
  const control = `Package: ${name}\nVersion: ${version}\nArchitecture: all\nMaintainer: a test <test@localhost>\nDescription: stands for what is there\n`;
  execFileSync('tee', [path.join(stage, 'DEBIAN', 'control')], {
    input: control,
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  const file = path.join(directory, `${name}.deb`);
  execFileSync('dpkg-deb', ['--root-owner-group', '--build', stage, file], { stdio: 'ignore' });
  return file;
}
