/** Assembles what the packages install: the program with the modules that it needs to run, and their licences. */
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, readdirSync, readFileSync, realpathSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('..', import.meta.url));
export const description = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));

/** Our own package, which npm links into its place. */
const volumes = 'node_modules/@remote-app/volumes';

/** The directories of the packages that the program needs, relative to the checkout. */
function dependencies() {
  const list = (...which) =>
    execFileSync('npm', ['ls', '--omit=dev', '--all', '--parseable', '--loglevel=error', ...which], {
      cwd: root,
      encoding: 'utf8',
    });
  const listed = list('--workspaces=false') + list('--workspace=@remote-app/volumes');
  const names = listed.split('\n').map((each) => path.relative(root, each));
  // Type declarations, and what the runtime Bare needs in place of Node's own modules.
  const unused = /node_modules\/(@types\/|bare-|undici-types$)/;
  return new Set([
    volumes,
    ...names.filter((name) => name.startsWith('node_modules/') && !unused.test(name)),
  ]);
}

const licence = /^(licen[cs]e|copying|notice)/i;
/** What a package carries for browsers, its own tests and its readers. */
const unusedDirectories = /^(\..*|test|tests|docs?|examples?|benchmarks?|browser|umd|dist[\\/]browser)$/;
const unusedFiles = /^\.|\.([cm]?ts|map|md|markdown|ya?ml|html|c|bare)$/;

/** Copies a package without the packages below it. Its licence comes along, if need be in its README. */
function copyModule(name, to) {
  const from = realpathSync(path.join(root, name));
  const hasLicence = readdirSync(from).some((each) => licence.test(each));
  const isNeeded = (file) => {
    const base = path.basename(file);
    if (licence.test(base)) return true;
    if (statSync(file).isDirectory()) {
      const within = path.relative(from, file);
      return base !== 'node_modules' && !unusedDirectories.test(within);
    }
    return !unusedFiles.test(base) || (!hasLicence && /^readme/i.test(base));
  };
  cpSync(from, to, { recursive: true, filter: isNeeded });
}

/** Directories and files as others may read them, whatever the umask of who packs. */
export function openForReading(directory) {
  for (const name of ['.', ...readdirSync(directory, { recursive: true })]) {
    const file = path.join(directory, name);
    chmodSync(file, statSync(file).mode & 0o111 ? 0o755 : 0o644);
  }
}

/** Writes the program to a directory: what npm would install, without its pages. */
export function putProgram(directory, version = description.version) {
  const pages = ['docs/remote-app.1', 'CHANGELOG.md'];
  for (const name of description.files.filter((each) => !pages.includes(each))) {
    cpSync(path.join(root, name), path.join(directory, name), { recursive: true });
  }
  for (const name of dependencies()) {
    const to = path.join(directory, name);
    if (name !== volumes) copyModule(name, to);
    for (const each of name === volumes ? ['package.json', 'dist'] : []) {
      cpSync(path.join(root, name, each), path.join(to, each), { recursive: true });
    }
  }
  // An app may depend on it (npm install /usr/lib/remote-app): npm would run scripts of the checkout, and look for its packages.
  const { scripts: _scripts, devDependencies: _tools, workspaces: _apps, ...shipped } = description;
  const manifest = JSON.parse(readFileSync(path.join(root, 'oclif.manifest.json'), 'utf8'));
  const put = (name, text) => writeFileSync(path.join(directory, name), text);
  put('package.json', `${JSON.stringify({ ...shipped, version }, null, 2)}\n`);
  put('oclif.manifest.json', JSON.stringify({ ...manifest, version }));
  chmodSync(path.join(directory, 'bin/run.js'), 0o755);
}
