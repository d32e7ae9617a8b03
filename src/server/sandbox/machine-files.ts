import { existsSync, lstatSync, readdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { errorCode, orElse } from '../../files/index.js';
import type { Gpu } from '../devices/index.js';
import type { Grant } from '../executors/index.js';

/** System directories with programs, libraries, and what is needed to run them. */
const directories = ['/usr', '/opt', '/etc', '/sys', '/nix/store', '/gnu/store'];
/** These are links into `/usr` on most systems. */
const linked = ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'];

/** Milliseconds for which a listing of `/etc` is reused. */
const freshness = 60_000;

/** The parts of a system that a job may read: its directories, its links, and what is hidden in them. */
interface SystemFiles {
  readonly directories: readonly string[];
  /** `[name, target]` */
  readonly links: readonly (readonly [string, string])[];
  readonly hiddenDirectories: readonly string[];
  readonly hiddenFiles: readonly string[];
}

const otherMayRead = 0o004;
const otherMayEnter = 0o005;

/** The names in a directory; empty if it is below `top` and was removed in the meantime. @throws the system's error */
function namesIn(directory: string, top: string): string[] {
  try {
    return readdirSync(directory);
  } catch (cause) {
    if (directory === top || errorCode(cause) !== 'ENOENT') throw cause;
    return [];
  }
}

/**
 * Entries below a directory that not everybody on the machine may read: keys, password files, settings of services. The
 * server's user may be able to read them, especially if it is root.
 */
function hiddenUnder(directory: string): Pick<SystemFiles, 'hiddenDirectories' | 'hiddenFiles'> {
  const hiddenDirectories: string[] = [];
  const hiddenFiles: string[] = [];
  const left = [directory];
  for (let current = left.pop(); current !== undefined; current = left.pop()) {
    for (const name of namesIn(current, directory)) {
      const file = path.join(current, name);
      const stats = lstatSync(file, { throwIfNoEntry: false });
      if (!stats || stats.isSymbolicLink()) continue;
      if (!stats.isDirectory()) {
        if ((stats.mode & otherMayRead) === 0) hiddenFiles.push(file);
      } else if ((stats.mode & otherMayEnter) === otherMayEnter) left.push(file);
      else hiddenDirectories.push(file);
    }
  }
  return { hiddenDirectories, hiddenFiles };
}

let known: { readonly at: number; readonly files: SystemFiles } | undefined;

/**
 * The files of this machine that every job may read. Refreshed after a minute, since an admin may install a service in the
 * meantime.
 * @throws the system's error if `/etc` cannot be read
 */
export function systemFiles(): SystemFiles {
  if (known && performance.now() - known.at < freshness) return known.files;
  const kindOf = (file: string) => lstatSync(file, { throwIfNoEntry: false });
  const files = {
    directories: [...directories, ...linked].filter((each) => kindOf(each)?.isDirectory()),
    links: linked.flatMap((each) =>
      kindOf(each)?.isSymbolicLink() ? [[each, readlinkSync(each)] as const] : [],
    ),
    ...hiddenUnder('/etc'),
  };
  known = { at: performance.now(), files };
  return files;
}

/** The file with the addresses of name servers, if `/etc` has only a link to it; otherwise empty. */
export function nameServers(): string[] {
  try {
    const file = realpathSync('/etc/resolv.conf');
    return file.startsWith('/etc/') ? [] : [file];
  } catch {
    return [];
  }
}

/** The permission bits that let somebody write to a file. */
const writable = 0o222;

/** Whether an entry of `/proc` belongs to the kernel: neither a process nor a link to one. */
const isOfKernel = (name: string): boolean => !/^\d+$/.test(name);

/**
 * The parts of `/proc` that change the whole machine: `sys`, `sysrq-trigger`, `irq` and the like. The kernel lets root
 * write there even without capabilities, and bwrap leaves most of it as it is. Empty if the server is not root.
 */
export function kernelSettings(): string[] {
  if (process.getuid?.() !== 0) return [];
  return readdirSync('/proc')
    .filter(isOfKernel)
    .map((name) => path.join('/proc', name))
    .filter((file) => {
      const status = lstatSync(file, { throwIfNoEntry: false });
      return status?.isDirectory() || (status?.isFile() && (status.mode & writable) !== 0);
    });
}

/** Devices that every program on an NVIDIA GPU opens; on their own, they give access to no other GPU. */
const sharedDevices = ['nvidiactl', 'nvidia-uvm', 'nvidia-uvm-tools', 'nvidia-modeset'];

/**
 * The only GPU device of WSL2, which gives access to all GPUs. Its driver is in `/usr/lib/wsl`, which every sandbox sees with
 * `/usr`.
 */
const wslDevice = '/dev/dxg';

/** Where the driver lists its GPUs, with a directory for each, and the device files of MIG instances. */
const driverDirectory = '/proc/driver';

/** The numbers of the GPUs' device files, by UUID; empty if the driver does not list them. */
function deviceMinors(root: string): ReadonlyMap<string, number> {
  try {
    const gpus = path.join(root, 'nvidia/gpus');
    const pairs = readdirSync(gpus).flatMap((each): [string, number][] => {
      const text = readFileSync(path.join(gpus, each, 'information'), 'utf8');
      const uuid = /^GPU UUID:\s*(\S+)/m.exec(text)?.[1];
      const minor = /^Device Minor:\s*(\d+)/m.exec(text)?.[1];
      return uuid && minor ? [[uuid, Number(minor)]] : [];
    });
    return new Map(pairs);
  } catch {
    return new Map();
  }
}

/** The device files of a MIG instance: that of its GPU, and the two that let a program use this part of the GPU. */
function instanceDevices(
  { gpu, gpuUuid, gpuInstance, computeInstance }: NonNullable<Gpu['mig']>,
  root: string,
): string[] {
  const minor = deviceMinors(root).get(gpuUuid) ?? gpu;
  // Lines such as `gpu0/gi1/ci0/access 13`.
  const lines = orElse(() => readFileSync(path.join(root, 'nvidia-caps/mig-minors'), 'utf8').split('\n'), []);
  const own = `gpu${minor}/gi${gpuInstance}`;
  const caps = [`${own}/access `, `${own}/ci${computeInstance}/access `].flatMap((start) =>
    lines.filter((line) => line.startsWith(start)).map((line) => line.slice(start.length)),
  );
  return [`nvidia${minor}`, ...caps.map((each) => `nvidia-caps/nvidia-cap${each}`)];
}

/**
 * The device files of a grant: those of its own GPUs and those that all GPUs share; none for a job on the CPU. They have the
 * driver's numbers, which on some machines are in another order than nvidia-smi's; if the driver does not list them, nvidia-smi's
 * are used.
 * @param known the GPUs of this machine
 */
export function gpuDevices(
  { gpus, gpuUuids }: Pick<Grant, 'gpus' | 'gpuUuids'>,
  known: readonly Gpu[],
  root = driverDirectory,
  isThere = existsSync,
): string[] {
  if (gpus.length === 0) return [];
  if (!isThere('/dev/nvidiactl') && isThere(wslDevice)) return [wslDevice];
  const instances = known.flatMap(({ uuid, mig }) => (mig && gpuUuids.includes(uuid) ? [mig] : []));
  const minors = deviceMinors(root);
  const told = gpuUuids.flatMap((uuid) => minors.get(uuid) ?? []);
  const numbers = told.length === gpus.length ? told : gpus;
  const own =
    instances.length > 0
      ? instances.flatMap((each) => instanceDevices(each, root))
      : [...numbers.map((each) => `nvidia${each}`), 'nvidia-caps'];
  return [...own, ...sharedDevices].map((name) => `/dev/${name}`);
}
