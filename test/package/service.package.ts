import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { list } from '../support/list.mjs';
import { until } from '../support/until.mjs';
import { DebianRoot, emptyPackage, releaseRoot, releases } from './debian-root.js';

const tool = fileURLToPath(new URL('../../tools/debian-package.mjs', import.meta.url));
const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/apps/${name}`, import.meta.url));

const packageOf = (version: string, directory: string): string => {
  execFileSync(process.execPath, [tool, directory, version], { stdio: ['ignore', 'ignore', 'inherit'] });
  return `/mnt/remote-app_${version}_all.deb`;
};

const systems = ['this machine', ...(Object.keys(releases) as (keyof typeof releases)[])] as const;

const title =
  'The unit of the package runs jobs under systemd on %s, over a restart, an upgrade and until its removal';
test.for(systems)(title, async (system, context) => {
  if (!DebianRoot.isPossible()) context.skip('needs root, dpkg and a kernel with overlays');
  const release = system === 'this machine' ? { directory: '/' } : releaseRoot(releases[system]);
  if ('problem' in release) {
    context.skip(`there is no ${system} here: ${release.problem}`);
    return;
  }
  await using root = await DebianRoot.booted(release.directory);
  if (root === null) {
    context.skip('systemd does not start in namespaces here');
    return;
  }
  if (root.run(['bwrap', '--version']).code !== 0) context.skip('needs bubblewrap');
  const { shared } = root;
  const [first, second] = [packageOf('0.1.0', shared), packageOf('0.1.1', shared)];
  for (const [name, version] of [
    ['nodejs', process.versions.node],
    ['bubblewrap', '1'],
  ] as const) {
    if (root.run(['dpkg-query', '-W', name]).code === 0) continue;
    emptyPackage(name, version, shared);
    root.output(['dpkg', '-i', `/mnt/${name}.deb`]);
  }
  // Debian 12 has an older Node; this is the one of NodeSource.
  if (root.run(['node', '--version']).code !== 0) {
    cpSync(process.execPath, path.join(shared, 'node'));
    root.output(['install', '/mnt/node', '/usr/bin/node']);
  }
  // A container's, which keeps packages from starting services.
  root.output(['rm', '-f', '/usr/sbin/policy-rc.d']);
  root.output(['dpkg', '-i', first]);
  for (const name of ['probe', 'resident'])
    cpSync(fixture(name), path.join(shared, 'apps', name), { recursive: true });
  root.output(['cp', '-r', '/mnt/apps', '/srv/apps']);
  root.output(['sed', '-i', 's/^  - .*example$/  - \\/srv\\/apps/', '/etc/remote-app/serve.yaml']);

  // The program of the page for admins that sends a mail for a job that failed, which also needs a file.
  const page = readFileSync(new URL('../../docs/admin.md', import.meta.url), 'utf8');
  const [, mail = ''] = /^```sh\n(#!\/bin\/sh\n.*?smtp:.*?)^```$/ms.exec(page) ?? [];
  const program = mail
    .replace('#!/bin/sh\n', '#!/bin/sh\nset -e\nmktemp >&2\n')
    .replace('smtp://mail.example.org', 'smtp://127.0.0.1:2525');
  writeFileSync(path.join(shared, 'on-end'), program);
  root.output(['install', '-m', '755', '/mnt/on-end', '/etc/remote-app/on-end']);
  root.output(['sed', '-i', '$ a on-end: /etc/remote-app/on-end', '/etc/remote-app/serve.yaml']);
  cpSync(new URL('../support/smtp-sink.mjs', import.meta.url), path.join(shared, 'smtp-sink.mjs'));
  root.start(['node', '/mnt/smtp-sink.mjs', '2525', '/mnt/mail']);

  // An app may depend on the package.
  if (root.run(['npm', '--version']).code === 0) {
    const script =
      "mkdir /tmp/own && cd /tmp/own && echo '{}' >package.json && npm install --offline --no-audit --no-fund /usr/lib/remote-app >&2 && echo \"import { writeNifti } from 'remote-app/volumes'; console.log(typeof writeNifti)\" >main.mjs && node main.mjs";
    expect(root.output(['sh', '-c', script])).toBe('function\n');
  }

  // The command of the page for admins. It finds what only the restrictions of the unit forbid.
  const checked = root.output(['sh', '/usr/share/remote-app/check']);
  expect(checked).toMatch(/^ok +app resident/m);
  expect(checked).toMatch(/^ok +token/m);
  expect(checked).toMatch(/^ok +sandbox/m);
  expect(checked).not.toMatch(/PROBLEM|^note +user/m);

  root.output(['systemctl', 'restart', 'remote-app']);
  // Type=notify: it listens by now.
  expect(root.output(['systemctl', 'is-active', 'remote-app'])).toBe('active\n');
  const token = root.output(['cat', '/etc/remote-app/token']).trim();
  const env = { REMOTE_APP_SERVER: 'http://127.0.0.1:8000', SERVICE_API_TOKEN: token };
  writeFileSync(path.join(shared, 'ct.nii'), 'voxels');
  const infer = (...words: string[]) =>
    root.output(['remote-app', 'infer', '--detach', ...words, '/mnt/ct.nii'], env).trim();
  const ended = (id: string) => {
    root.run(['remote-app', 'wait', id], env);
    return JSON.parse(root.output(['remote-app', 'status', id, '--json'], env));
  };
  const logOf = (id: string) => root.output(['remote-app', 'logs', id], env);

  const plain = infer('--app', 'probe');
  expect([ended(plain).status, logOf(plain)]).toEqual([
    'done',
    expect.stringContaining('in a sandbox without network'),
  ]);
  const failed = infer('--app', 'probe', '--set', 'exit=3');
  expect(ended(failed).status).toBe('error');
  const sent = path.join(shared, 'mail');
  const subject = `Subject: Job ${failed} of probe failed`;
  await until('a mail tells it', () => existsSync(sent) && readFileSync(sent, 'utf8').includes(subject));
  const starts = ['cold', 'warm'].map(() => ended(infer('--app', 'resident')));
  expect(starts).toMatchObject([
    { status: 'done', start: 'cold' },
    { status: 'done', start: 'warm' },
  ]);

  const id = infer(
    '--app',
    'probe',
    '--set',
    'print=begun',
    '--set',
    'shell=until [ -e "$TMPDIR/gate" ]; do sleep 0.1; done',
  );
  const log = `/var/lib/remote-app/jobs/jobs/${id}/log`;
  await until('it runs', () => root.run(['cat', log]).stdout.includes('begun'), 120_000);
  root.output(['systemctl', 'restart', 'remote-app']);
  root.output(['dpkg', '-i', second]);
  expect(root.output(['remote-app', '--version'])).toContain('remote-app/0.1.1 ');
  expect(JSON.parse(root.output(['remote-app', 'status', id, '--json'], env)).status).toBe('running');
  root.output(['touch', `/var/lib/remote-app/jobs/jobs/${id}/Workspace/tmp/gate`]);
  expect(ended(id).status).toBe('done');

  // The journal has the time and the level of each line; nothing was a warning.
  const said = root.output(['journalctl', '-u', 'remote-app', '-o', 'cat', '--no-pager']);
  expect(said).toContain(`\nJob ${id}: done after `);
  expect(said).not.toMatch(/<\d>|^\d{4}-\d\d-\d\dT/m);
  expect(root.output(list`journalctl _SYSTEMD_UNIT=remote-app.service -p warning -q -o cat --no-pager`)).toBe(
    '',
  );

  root.output(['dpkg', '-r', 'remote-app']);
  expect(root.run(['systemctl', 'is-active', 'remote-app']).stdout).toBe('inactive\n');
  await until('no process is left', () => root.run(['pgrep', '-u', 'remote-app']).stdout === '');
});
