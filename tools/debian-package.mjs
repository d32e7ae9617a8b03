/**
 * Makes the Debian package of what is built, with the program dpkg-deb.
 * Usage: node tools/debian-package.mjs [DIRECTORY] [VERSION]
 */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const root = fileURLToPath(new URL('..', import.meta.url));
const description = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
const [out = root, version = description.version] = process.argv.slice(2);

const stage = mkdtempSync(path.join(tmpdir(), 'remote-app-deb-'));
const at = (name) => path.join(stage, name);
const source = (name) => readFileSync(path.join(root, name));

/** Writes a file of the package, and the directories above it. */
function put(name, content, mode = 0o644) {
  mkdirSync(path.dirname(at(name)), { recursive: true });
  writeFileSync(at(name), content);
  chmodSync(at(name), mode);
}

/** Our own package, which npm links into its place. */
const volumes = 'node_modules/@remote-app/volumes';

/** The directories of the packages that the program needs, relative to the checkout. */
function dependencies() {
  const list = (...which) =>
    execFileSync('npm', ['ls', '--omit=dev', '--all', '--parseable', ...which], {
      cwd: root,
      encoding: 'utf8',
    });
  const listed = list('--workspaces=false') + list('--workspace=@remote-app/volumes');
  const names = listed.split('\n').map((each) => path.relative(root, each));
  return new Set([volumes, ...names.filter((name) => name.startsWith('node_modules/'))]);
}

/** The program: what npm would install, without what lies elsewhere in Debian. */
function putProgram() {
  const library = 'usr/lib/remote-app';
  const elsewhere = ['docs/remote-app.1', 'CHANGELOG.md'];
  for (const name of description.files.filter((each) => !elsewhere.includes(each))) {
    cpSync(path.join(root, name), at(path.join(library, name)), { recursive: true });
  }
  for (const name of dependencies()) {
    const from = realpathSync(path.join(root, name));
    const left = name === volumes ? ['node_modules', 'src', 'test', 'tsconfig.json'] : ['node_modules'];
    const filter = (file) => !left.includes(path.relative(from, file).split(path.sep)[0]);
    cpSync(from, at(path.join(library, name)), { recursive: true, filter });
  }
  // An app may depend on it (npm install /usr/lib/remote-app): npm would run scripts of the checkout, and look for its packages.
  const { scripts: _scripts, devDependencies: _tools, workspaces: _apps, ...shipped } = description;
  put(`${library}/package.json`, `${JSON.stringify({ ...shipped, version }, null, 2)}\n`);
  const manifest = JSON.parse(source('oclif.manifest.json'));
  put(`${library}/oclif.manifest.json`, JSON.stringify({ ...manifest, version }));
  chmodSync(at(`${library}/bin/run.js`), 0o755);
  mkdirSync(at('usr/bin'), { recursive: true });
  symlinkSync('../lib/remote-app/bin/run.js', at('usr/bin/remote-app'));
}

/** The pages for people who use the package. */
const documents = [
  'README.md',
  'SECURITY.md',
  ...['admin', 'app-reference', 'apps', 'cli', 'data-directory', 'hugging-face'].map(
    (name) => `docs/${name}.md`,
  ),
  ...['resident', 'sandbox', 'slurm', 'using'].map((name) => `docs/${name}.md`),
];

function putDocumentation() {
  const documentation = 'usr/share/doc/remote-app';
  const others =
    'The licences of the packages that it uses are beside them, below /usr/lib/remote-app/node_modules.';
  put(`${documentation}/copyright`, `${source('LICENSE')}\n${others}\n`);
  put(`${documentation}/changelog.gz`, gzipSync(source('CHANGELOG.md'), { level: 9 }));
  for (const name of documents) {
    put(`${documentation}/${path.basename(name)}`, source(name));
  }
  put('usr/share/man/man1/remote-app.1.gz', gzipSync(source('docs/remote-app.1'), { level: 9 }));
}

/** Where each shell of Debian looks for the completions of packages. */
const completions = {
  bash: 'usr/share/bash-completion/completions/remote-app',
  zsh: 'usr/share/zsh/vendor-completions/_remote-app',
  fish: 'usr/share/fish/vendor_completions.d/remote-app.fish',
};

/** The app that the configuration names until an admin names others: it has no dependencies, and is there to be copied. */
function putExample() {
  const words = ['--language', 'javascript', '--name', 'Example'];
  const directory = at('usr/share/remote-app/apps/example');
  mkdirSync(path.dirname(directory), { recursive: true });
  execFileSync(process.execPath, [path.join(root, 'bin/run.js'), 'init', directory, ...words]);
}

function putCompletions() {
  for (const [shell, name] of Object.entries(completions)) {
    put(name, execFileSync(process.execPath, [path.join(root, 'bin/run.js'), 'completion', shell]));
  }
}

/** Kilobytes of a directory. */
function sizeOf(directory) {
  return readdirSync(directory, { recursive: true })
    .map((name) => statSync(path.join(directory, name)))
    .reduce((sum, stats) => sum + (stats.isFile() ? Math.ceil(stats.size / 1024) : 1), 0);
}

function putControl() {
  const size = sizeOf(stage);
  const control = String(source('packaging/debian/control'));
  put('DEBIAN/control', control.replace('@VERSION@', version).replace('@SIZE@', String(size)));
  put('DEBIAN/conffiles', source('packaging/debian/conffiles'));
  for (const name of ['postinst', 'prerm', 'postrm']) {
    put(`DEBIAN/${name}`, source(`packaging/debian/${name}`), 0o755);
  }
}

/** Directories and files as others may read them, whatever the umask of who packs. */
function openForReading() {
  for (const name of ['.', ...readdirSync(stage, { recursive: true })]) {
    const mode = statSync(at(name)).mode;
    chmodSync(at(name), mode & 0o111 ? 0o755 : 0o644);
  }
}

try {
  putProgram();
  putDocumentation();
  putCompletions();
  putExample();
  put('usr/share/remote-app/check', source('packaging/check'), 0o755);
  put('etc/remote-app/serve.yaml', source('packaging/serve.yaml'));
  put('etc/logrotate.d/remote-app', source('packaging/logrotate'));
  put('usr/lib/systemd/system/remote-app.service', source('packaging/remote-app.service'));
  putControl();
  openForReading();
  const file = path.join(out, `remote-app_${version}_all.deb`);
  execFileSync('dpkg-deb', ['--root-owner-group', '-Zxz', '-z1', '--build', stage, file], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  console.log(file);
} finally {
  rmSync(stage, { recursive: true, force: true });
}
