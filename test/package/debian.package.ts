import { type ChildProcess, execFileSync } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { list } from '../support/list.mjs';
import { freePort } from '../support/ports.mjs';
import { addressIn, hasEnded } from '../support/serve.mjs';
import { until } from '../support/until.mjs';
import { DebianRoot, emptyPackage } from './debian-root.js';

const tool = fileURLToPath(new URL('../../tools/debian-package.mjs', import.meta.url));
const probe = fileURLToPath(new URL('../fixtures/apps/probe', import.meta.url));

const packageOf = (version: string, directory: string): string => {
  execFileSync(process.execPath, [tool, directory, version], { stdio: ['ignore', 'ignore', 'inherit'] });
  return `/mnt/remote-app_${version}_all.deb`;
};

/** The service as systemd starts it: as its user, with its credential, by the words of its unit. */
async function startService(root: DebianRoot): Promise<ChildProcess & { said: string }> {
  const credentials = '/run/credentials/remote-app.service';
  root.output(['install', '-d', '-o', 'remote-app', '-m', '0500', credentials]);
  root.output(['install', '-o', 'remote-app', '-m', '0400', '/etc/remote-app/token', `${credentials}/token`]);
  const unit = root.output(['cat', '/usr/lib/systemd/system/remote-app.service']);
  const [, line = ''] = /^ExecStart=(.*)$/m.exec(unit) ?? [];
  // In a changed root the kernel gives nobody namespaces; `service.package.ts` runs jobs in sandboxes.
  const words = [...line.replace(/\$\{CREDENTIALS_DIRECTORY\}/, credentials).split(' '), '--sandbox', 'off'];
  const user = ['setpriv', '--reuid', 'remote-app', '--regid', 'remote-app', '--init-groups'];
  const service = Object.assign(
    root.start(['env', '-C', '/var/lib/remote-app', ...user, ...words], {
      HOME: '/var/lib/remote-app',
      CREDENTIALS_DIRECTORY: credentials,
    }),
    { said: '' },
  );
  for (const stream of [service.stdout, service.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      service.said += chunk;
    });
  }
  await until('it listens', () => {
    if (hasEnded(service)) throw new Error(`The service ended: ${service.said}`);
    return addressIn(service.said);
  });
  return service;
}

/** As `KillMode=process`: SIGTERM to the server alone. */
async function stopService(root: DebianRoot, service: ChildProcess): Promise<void> {
  const { pid } = JSON.parse(root.output(['cat', '/var/lib/remote-app/jobs/serve.lock'])) as { pid: number };
  root.output(['kill', '-TERM', String(pid)]);
  await until('it has ended', () => hasEnded(service));
  expect(service.exitCode).toBe(0);
}

test('The Debian package is installed, upgraded over a running job, and removed', async (context) => {
  if (!DebianRoot.isPossible()) context.skip('needs root, dpkg and a kernel with overlays');
  await using root = await DebianRoot.create();
  const { shared } = root;
  const [first, second] = [packageOf('0.1.0', shared), packageOf('0.1.1', shared)];
  if (root.run(['dpkg-query', '-W', 'nodejs']).code !== 0) {
    emptyPackage('nodejs', process.versions.node, shared);
    root.output(['dpkg', '-i', '/mnt/nodejs.deb']);
  }

  root.output(['dpkg', '-i', first]);
  expect(root.output(['remote-app', '--version'])).toContain('remote-app/0.1.0 ');
  const token = root.output(['cat', '/etc/remote-app/token']).trim();
  expect(token).toMatch(/^[0-9a-f]{64}$/);
  expect(root.output(['stat', '-c', '%a %U', '/etc/remote-app/token'])).toBe('600 root\n');
  expect(root.output(['stat', '-c', '%a %U', '/var/lib/remote-app'])).toBe('700 remote-app\n');
  expect(root.run(['systemd-analyze', 'verify', '--man=no', 'remote-app.service'])).toEqual({
    code: 0,
    stdout: '',
    stderr: '',
  });
  const completion = 'source /usr/share/bash-completion/completions/remote-app && complete -p remote-app';
  expect(root.output(['bash', '-c', completion])).toContain('remote-app');
  expect(root.output(['zcat', '/usr/share/man/man1/remote-app.1.gz'])).toContain('.SH COMMANDS');

  // As it comes it has an app to try. Another service of this machine may have the port.
  const port = await freePort();
  root.output(['sed', '-i', `s/^port: .*/port: ${port}/`, '/etc/remote-app/serve.yaml']);
  writeFileSync(path.join(shared, 'ct.nii'), 'ct');
  const fresh = await startService(root);
  const server = { REMOTE_APP_SERVER: `http://127.0.0.1:${port}` };
  const env = { ...server, SERVICE_API_TOKEN: token };
  expect(root.output(['remote-app', 'apps'], env)).toBe('example\n');
  root.output(['remote-app', 'infer', '/mnt/ct.nii', '-o', '/tmp/example'], env);
  expect(root.output(['ls', '/tmp/example'])).toContain('ct.nii');
  await stopService(root, fresh);

  // What the page for admins says: an app, the address, a check.
  cpSync(probe, path.join(shared, 'apps', 'probe'), { recursive: true });
  root.output(['cp', '-r', '/mnt/apps', '/srv/apps']);
  const edit = `s/^  - .*example$/  - \\/srv\\/apps/; s/^#audit-log:/audit-log:/; s/^sandbox: bwrap/sandbox: off/`;
  root.output(['sed', '-i', edit, '/etc/remote-app/serve.yaml']);
  // As LogsDirectory= does.
  root.output(['install', '-d', '-o', 'remote-app', '-g', 'remote-app', '-m', '0700', '/var/log/remote-app']);
  const config = root.output(['cat', '/etc/remote-app/serve.yaml']);
  const check =
    'SERVICE_API_TOKEN=$(cat /etc/remote-app/token) exec runuser -u remote-app -- remote-app serve --config /etc/remote-app/serve.yaml --check';
  const checked = root.output(['sh', '-c', check], { HOME: '/var/lib/remote-app' });
  expect(checked).toMatch(/^note +app probe/m);
  expect(checked).toMatch(/^ok +token/m);
  expect(checked).not.toMatch(/^note +user/m);

  let service = await startService(root);
  expect(root.run(['remote-app', 'jobs'], server).code).toBe(4);
  const words = list`infer --detach --keep 1h --set print=begun --set wait=/mnt/gate /mnt/ct.nii`;
  const id = root.output(['remote-app', ...words], env).trim();
  await until('it runs', () => logOf(root, id).includes('begun'));

  await stopService(root, service);
  root.output(['dpkg', '-i', second]);
  expect(root.output(['remote-app', '--version'])).toContain('remote-app/0.1.1 ');
  expect(root.output(['cat', '/etc/remote-app/serve.yaml'])).toBe(config);
  expect(root.output(['cat', '/etc/remote-app/token']).trim()).toBe(token);
  service = await startService(root);
  expect(service.said).toMatch(/Recovered 1 active and \d finished jobs?\./);
  expect(JSON.parse(root.output(['remote-app', 'status', id, '--json'], env)).status).toBe('running');
  writeFileSync(path.join(shared, 'gate'), '');
  expect(root.output(['remote-app', 'wait', id], env)).toContain('done');
  root.output(['remote-app', 'result', id, '-o', '/tmp/result'], env);
  expect(root.output(['ls', '/tmp/result'])).toContain('probe.json');
  const audit = root.output(['cat', '/var/log/remote-app/audit.jsonl']).trim().split('\n');
  expect(audit.filter((each) => JSON.stringify(JSON.parse(each)).includes(id)).length).toBeGreaterThan(1);
  if (root.run(['logrotate', '--version']).code === 0) {
    root.output(['logrotate', '--force', '/etc/logrotate.d/remote-app']);
    expect(root.output(['ls', '/var/log/remote-app'])).toContain('audit.jsonl.1');
  }
  await stopService(root, service);

  root.output(['dpkg', '-r', 'remote-app']);
  expect(root.run(['remote-app', '--version']).code).toBe(127);
  for (const gone of ['/usr/lib/remote-app', '/usr/lib/systemd/system/remote-app.service']) {
    expect([gone, root.run(['ls', gone]).code]).toEqual([gone, 2]);
  }
  expect(root.output(['cat', '/etc/remote-app/serve.yaml', '/etc/remote-app/token'])).toContain(token);
  root.output(['touch', '/etc/remote-app/tokens.json']);
  root.output(['dpkg', '-P', 'remote-app']);
  for (const gone of ['/etc/remote-app', '/var/lib/remote-app', '/var/log/remote-app']) {
    expect([gone, root.run(['ls', gone]).code]).toEqual([gone, 2]);
  }
  // Nothing of it came to this machine.
  expect(readFileSync('/etc/passwd', 'utf8')).not.toContain('remote-app');
});

/** The log of a job, from its directory. */
const logOf = (root: DebianRoot, id: string): string =>
  root.run(['cat', `/var/lib/remote-app/jobs/jobs/${id}/log`]).stdout;
