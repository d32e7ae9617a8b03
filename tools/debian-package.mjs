/**
 * Makes the Debian package of what is built, with the program dpkg-deb.
 * Usage: node tools/debian-package.mjs [DIRECTORY] [VERSION]
 */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { description, openForReading, putProgram, root } from './program.mjs';

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

function putCommand() {
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
  ...['container', 'resident', 'sandbox', 'slurm', 'using'].map((name) => `docs/${name}.md`),
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

try {
  putProgram(at('usr/lib/remote-app'), version);
  putCommand();
  putDocumentation();
  putCompletions();
  putExample();
  put('usr/share/remote-app/check', source('packaging/check'), 0o755);
  put('etc/remote-app/serve.yaml', source('packaging/serve.yaml'));
  put('etc/logrotate.d/remote-app', source('packaging/logrotate'));
  put('usr/lib/systemd/system/remote-app.service', source('packaging/remote-app.service'));
  putControl();
  openForReading(stage);
  const file = path.join(out, `remote-app_${version}_all.deb`);
  execFileSync('dpkg-deb', ['--root-owner-group', '-Zxz', '-z1', '--build', stage, file], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  console.log(file);
} finally {
  rmSync(stage, { recursive: true, force: true });
}
