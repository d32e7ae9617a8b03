import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { until } from '../support/until.mjs';

/** Layers an empty file system over a system's (`$2`), with what a chroot needs, and waits. */
const layer = `
set -e
mount -t tmpfs tmpfs "$1/layer"
mkdir "$1/layer/upper" "$1/layer/work" "$1/root"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/layer/upper,workdir=$1/layer/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
mount -t tmpfs tmpfs "$1/root/run"
mount -t tmpfs -o mode=1777 tmpfs "$1/root/tmp"
mount --bind "$1/shared" "$1/root/mnt"
echo ready
exec sleep infinity
`;

/**
 * The same, and starts systemd in it. Of the kernel's settings and devices it sees nothing that it could change: it would load
 * modules and set those of this machine.
 */
const boot = `
set -e
mount -t tmpfs tmpfs "$1/layer"
mkdir "$1/layer/upper" "$1/layer/work" "$1/root"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/layer/upper,workdir=$1/layer/work" "$1/root"
cd "$1/root"
mount -t proc proc proc
for each in sys sysrq-trigger irq bus; do
  [ -e "proc/$each" ] || continue
  mount --bind "proc/$each" "proc/$each"
  mount -o remount,bind,ro "proc/$each"
done
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for each in null zero full random urandom tty; do
  touch "dev/$each"
  mount --bind "/dev/$each" "dev/$each"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
for each in fd:/proc/self/fd stdin:/proc/self/fd/0 stdout:/proc/self/fd/1 stderr:/proc/self/fd/2; do
  ln -s "\${each#*:}" "dev/\${each%%:*}"
done
mount -t tmpfs -o mode=1777 tmpfs dev/shm
# The kernel lets a sandbox mount a /proc only where one is that nothing is mounted over.
mkdir -m 700 dev/proc
mount -t proc proc dev/proc
# Each namespace of users has limits of its own there, which bwrap sets.
mount --bind dev/proc/sys/user proc/sys/user
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount --bind "$1/shared" mnt
# Nothing of this machine's own services.
mount -t tmpfs -o mode=755 tmpfs etc/systemd/system
ip link set lo up 2>/dev/null || true
mkdir -p run/outside
pivot_root . run/outside
cd /
umount -l run/outside
# What systemd mounts for a service in another namespace has to appear here.
mount --make-rshared /
echo ready
exec env -i container=remote-app PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
  /usr/lib/systemd/systemd --system --unit=basic.target --show-status=false >/dev/null 2>&1
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
    /** Namespaces that it has besides those of mounts and processes. */
    private readonly spaces: readonly string[],
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

  /**
   * Such a machine with its systemd; null if it does not come up here.
   * @param system a directory with the file system of another Debian
   */
  static async booted(system = '/'): Promise<DebianRoot | null> {
    if (!existsSync(path.join(system, 'usr/lib/systemd/systemd'))) return null;
    const spaces = ['--cgroup', '--ipc', '--uts', '--net'];
    const root = await DebianRoot.create(boot, spaces, system).catch(() => null);
    const isUp = () =>
      ['running', 'degraded'].includes(root?.run(['systemctl', 'is-system-running']).stdout.trim() ?? '');
    try {
      if (root) await until('systemd is up', isUp, 60_000);
      return root;
    } catch {
      await root?.[Symbol.asyncDispose]();
      return null;
    }
  }

  static async create(script = layer, spaces: readonly string[] = [], system = '/'): Promise<DebianRoot> {
    const place = mkdtempSync(path.join(tmpdir(), 'remote-app-debian-'));
    for (const name of ['layer', 'shared']) mkdirSync(path.join(place, name), { mode: 0o755 });
    const flags = ['--mount', '--pid', '--fork', '--kill-child', '--propagation', 'private', ...spaces];
    const holder = spawn('unshare', [...flags, 'sh', '-c', script, 'sh', place, system], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const isReady = once(holder.stdout as NodeJS.ReadableStream, 'data').then(() => true);
    if (!(await Promise.race([isReady, once(holder, 'exit').then(() => false)]))) {
      rmSync(place, { recursive: true, force: true });
      throw new Error('The namespaces of a machine could not be made');
    }
    const children = readFileSync(`/proc/${holder.pid}/task/${holder.pid}/children`, 'utf8');
    return new DebianRoot(place, holder, Number(children.trim().split(' ')[0]), spaces);
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
    const spaces = ['--mount', '--pid', ...this.spaces];
    // systemd has made the directory its root.
    const chroot = this.spaces.length > 0 ? [] : ['chroot', path.join(this.place, 'root')];
    const inside = ['nsenter', '-t', String(this.init), ...spaces, ...chroot];
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

/** Debian's releases that the service is tried on, besides that of this machine, with the packages that an admin has there. */
export const releases = { 'Debian 12': 'bookworm', 'Debian 13': 'trixie' } as const;

const packages = [
  ...['systemd', 'systemd-sysv', 'dbus', 'bubblewrap', 'adduser', 'util-linux', 'procps', 'iproute2'],
  ...['init-system-helpers', 'ca-certificates', 'curl', 'jq', 'python3', 'python3-venv'],
];

/**
 * The file system of a current Debian release, made by mmdebstrap from the mirrors of this machine's apt, and kept for the next
 * time for a day.
 * @returns its directory, or why there is none
 */
export function releaseRoot(suite: string): { readonly directory: string } | { readonly problem: string } {
  const directory = path.join(tmpdir(), `remote-app-debian-${suite}`);
  const age = Date.now() - (statSync(directory, { throwIfNoEntry: false })?.ctimeMs ?? 0);
  if (age < 24 * 3600_000) return { directory };
  rmSync(directory, { recursive: true, force: true });
  const targets = spawnSync('apt-get', [
    'indextargets',
    '--format',
    '$(REPO_URI) $(SUITE)',
    'Created-By: Packages',
  ]);
  const uris = new Set(
    String(targets.stdout)
      .split('\n')
      .filter((line) => /\/debian(-security)?\/? /.test(line))
      .map((line) => line.split(' ')[0] ?? ''),
  );
  const lines = [...uris].flatMap((uri) =>
    (uri.includes('debian-security') ? [`${suite}-security`] : [suite, `${suite}-updates`]).map(
      (each) => `deb ${uri} ${each} main`,
    ),
  );
  if (lines.length === 0) return { problem: 'apt has no mirror of Debian here' };
  // That of Debian 12 is too old.
  const included = suite === 'bookworm' ? packages : [...packages, 'nodejs'];
  const partial = `${directory}.partial`;
  rmSync(partial, { recursive: true, force: true });
  const words = [
    '--mode=root',
    '--variant=minbase',
    `--include=${included.join(',')}`,
    suite,
    partial,
    ...lines,
  ];
  const { status, stderr, error } = spawnSync('mmdebstrap', words, { encoding: 'utf8' });
  if (error) return { problem: 'needs mmdebstrap' };
  if (status !== 0) return { problem: stderr.trim().split('\n').at(-1) ?? 'mmdebstrap failed' };
  renameSync(partial, directory);
  return { directory };
}
