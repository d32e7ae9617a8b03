import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { list } from '../support/list.mjs';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));

test('The package installs globally, and runs on Node 20, 22 and 24', { timeout: 300_000 }, async () => {
  const place = await mkdtemp(path.join(tmpdir(), 'remote-app-package-'));
  try {
    // Packs the existing build: another build would replace the files that other tests run.
    const pack = ['pack', '--ignore-scripts', '--json', '--pack-destination', place];
    const { stdout: packed } = await run('npm', pack, { cwd: root });
    const [{ filename, files }] = JSON.parse(packed) as [{ filename: string; files: { path: string }[] }];
    const folders = new Set(files.map((file) => file.path.split('/')[0]));
    expect([...folders].sort()).toEqual(
      list`CHANGELOG.md LICENSE README.md bin dist docs engines node_modules oclif.manifest.json
        package.json templates`.sort(),
    );
    const viewer = ['niivue.umd.js', 'LICENCES.txt'].map((name) => `dist/niivue/${name}`);
    expect(files.map((file) => file.path)).toEqual(expect.arrayContaining(viewer));
    const install = ['install', '--global', '--prefix', place, '--no-audit', '--no-fund', '--prefer-offline'];
    await run('npm', [...install, path.join(place, filename)], { cwd: place });

    const remoteApp = path.join(place, 'bin', 'remote-app');
    const { version } = JSON.parse(await readFile(path.join(root, 'package.json'), 'utf8'));
    expect((await run(remoteApp, ['--version'])).stdout).toContain(`remote-app/${version} `);
    expect((await run(remoteApp, ['--help'])).stdout).toContain('fine-tune');
    for (const node of ['20', '22', '24']) {
      const command = ['exec', '--yes', `--package=node@${node}`, '--', 'node', remoteApp, '--version'];
      const { stdout } = await run('npm', command, { cwd: place });
      expect(stdout).toMatch(new RegExp(`^remote-app/${version} \\S+ node-v${node}\\.`));
    }
    expect(await readFile(path.join(place, 'share/man/man1/remote-app.1'), 'utf8')).toContain('.SH COMMANDS');
    // What `init` writes comes from files of the package, and runs.
    await run(remoteApp, ['init', path.join(place, 'new app'), '--language', 'javascript']);
    const [volume, output] = [path.join(place, 'a scan.nii'), path.join(place, 'Output')];
    await writeFile(volume, 'volume');
    const words = ['infer', 'APP', '--output', output, '--inputs', volume];
    await run(process.execPath, [path.join(place, 'new app', 'main.mjs'), ...words]);
    expect(await readFile(path.join(output, 'a scan.nii'), 'utf8')).toBe('volume');
    // An app may depend on what is installed.
    await writeFile(path.join(place, 'new app', 'package.json'), '{"private": true}');
    const installed = path.join(place, 'lib/node_modules/remote-app');
    await run('npm', ['install', '--no-audit', '--no-fund', '--offline', installed], {
      cwd: path.join(place, 'new app'),
    });
    const program = "import { writeNifti } from 'remote-app/volumes'; console.log(typeof writeNifti);";
    const imported = await run(process.execPath, ['--input-type=module', '-e', program], {
      cwd: path.join(place, 'new app'),
    });
    expect(imported.stdout).toBe('function\n');
    const refused = await run(remoteApp, ['health', '--server', 'http://127.0.0.1:1']).catch(
      (cause) => cause,
    );
    expect(refused.code).toBe(5);
  } finally {
    await rm(place, { recursive: true, force: true });
  }
});
