// @ts-check
import { spawnSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * The tools that tests use and not every Debian has, with the packages that they are in: those of the line in
 * CONTRIBUTING.md. Whatever else a test starts is in a package that Debian calls essential or required.
 */
export const packages = {
  bwrap: 'bubblewrap',
  chromium: 'chromium',
  fish: 'fish',
  jq: 'jq',
  nginx: 'nginx',
  openssl: 'openssl',
  python3: 'python3',
  ssh: 'openssh-client',
  sshd: 'openssh-server',
  unzip: 'unzip',
  zsh: 'zsh',
};

const bin = fileURLToPath(new URL('../../bin/run.js', import.meta.url));

/** @param {readonly string[]} words */
const succeeds = ([program = '', ...args]) => spawnSync(program, args, { stdio: 'ignore' }).status === 0;

/** Scans that tests read, and the packages of Debian that they are in. */
export const scans = {
  pydicom: { directory: '/usr/lib/python3/dist-packages/pydicom/data/test_files', from: 'python3-pydicom' },
  nibabel: { directory: '/usr/lib/python3/dist-packages/nibabel', from: 'python3-nibabel' },
  mricron: { directory: '/usr/share/mricron/templates', from: 'mricron-data' },
};

/**
 * The directory of such scans; null where they are not installed, which is printed.
 * @param {keyof typeof scans} name
 */
export function scansOf(name) {
  const { directory, from } = scans[name];
  if (isAccessible(directory, constants.R_OK)) return directory;
  skipped(`the scans of ${name}`, `they are not installed (Debian: apt-get install ${from})`);
  return null;
}

/** Runs a command as a user that owns nothing. */
export const asNobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'];

/** Runs a command in a PID namespace. */
export const inPidNamespace = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc'];

/** Runs a command in a network namespace, without other programs that listen. */
export const inNetworkNamespace = ['unshare', '--user', '--map-root-user', '--net'];

/** What a machine may not allow. */
const rights = {
  root: () => process.getuid?.() === 0,
  'root, and a checkout and a Node that other users can read': () =>
    succeeds([...asNobody, process.execPath, '-e', 'fs.accessSync(process.argv[1])', bin]),
  'the right to make PID namespaces': () => succeeds([...inPidNamespace, 'true']),
  'the right to make network namespaces': () => succeeds([...inNetworkNamespace, 'true']),
  'pip and venv of python3': () => succeeds(['python3', '-c', 'import ensurepip, pip, venv']),
  'a directory /opt that can be written to': () => isAccessible('/opt', constants.W_OK),
};

/**
 * The tools of the line, four more that are only used where they are, and those that lists in tests name beside them.
 * @typedef {keyof typeof packages | 'caddy' | 'curl' | 'podman' | 'prometheus' | 'bash' | 'node' | 'sh'} Tool
 * @typedef {keyof typeof rights} Right
 */

/** @param {string} file @param {number} mode */
function isAccessible(file, mode) {
  try {
    accessSync(file, mode);
    return true;
  } catch {
    return false;
  }
}

/**
 * Every place of a program on PATH, and in the directory of daemons, which is not on the PATH of an ordinary user.
 * @param {string} tool
 */
export const placesOf = (tool) =>
  [...(process.env.PATH ?? '').split(path.delimiter), '/usr/sbin']
    .map((directory) => path.join(directory, tool))
    .filter((file) => isAccessible(file, constants.X_OK));

/**
 * Prints that tests are skipped, and returns it.
 * @param {string} need
 * @param {string} [why]
 */
export function skipped(need, why = '') {
  const sentence = `Tests that need ${need} are skipped${why && `: ${why}`}.`;
  console.warn(sentence);
  return sentence;
}

/**
 * For `skipIf`: why tests that need these tools and rights are skipped, which is printed as well; null where nothing is missing.
 * @param {...(Tool | Right)} needs
 */
export function lacks(...needs) {
  const reasons = needs.flatMap((need) => {
    if (need in rights) return rights[/** @type {Right} */ (need)]() ? [] : [skipped(need)];
    if (placesOf(need).length > 0) return [];
    const name = need in packages ? packages[/** @type {keyof typeof packages} */ (need)] : need;
    return [skipped(need, `it is not installed (Debian: apt-get install ${name})`)];
  });
  return reasons[0] ?? null;
}
