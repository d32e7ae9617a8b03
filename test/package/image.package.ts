import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { lacks } from '../support/needs.mjs';
import { until } from '../support/until.mjs';
import { DebianRoot, releaseRoot } from './debian-root.js';

const at = (name: string) => fileURLToPath(new URL(`../../${name}`, import.meta.url));

/** This machine for Podman: with control groups of version 2 alone, and containers that end with these namespaces. */
const engine = `
set -e
mount -t proc proc /proc
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /dev/shm
echo ready
exec sleep infinity
`;

const missing = lacks('podman', 'root');

test.skipIf(missing)('The image runs jobs in sandboxes, and recovers after it is killed', async (context) => {
  const release = releaseRoot('trixie');
  if ('problem' in release) return context.skip(`there is no Debian 13 here: ${release.problem}`);
  await using machine = await DebianRoot.create(engine, ['--ipc']);
  const { shared } = machine;
  const storage = ['root', 'runroot', 'tmpdir'].flatMap((each) => [`--${each}`, path.join(shared, each)]);
  const podman = (...words: string[]) => machine.run(['podman', ...storage, ...words]);
  const output = (...words: string[]) => machine.output(['podman', ...storage, ...words]);
  const imported = `tar -C ${release.directory} -c . | podman ${storage.join(' ')} import - debian`;
  machine.output(['sh', '-c', imported]);
  // What a machine may forbid, or have no systemd for.
  const here = [
    '--cgroups=disabled',
    '--ulimit=nofile=4096:4096',
    '--ulimit=nproc=4096:4096',
    '--network=none',
  ];
  const trial = podman('run', '--rm', ...here, 'debian', 'true');
  if (trial.code !== 0) return context.skip(`Podman starts no container here: ${trial.stderr.trim()}`);

  const place = path.join(shared, 'image');
  cpSync(at('packaging/image'), place, { recursive: true, filter: (file) => !file.endsWith('.deb') });
  execFileSync(process.execPath, [at('tools/debian-package.mjs'), place], { stdio: 'ignore' });
  const build = ['build', '--isolation=chroot', '--network=host', '--format=docker', '--layers=false'];
  output(...build, '--build-arg=BASE=debian', '--tag=remote-app', place);

  // The image of the page's, with an app.
  const page = readFileSync(at('docs/container.md'), 'utf8');
  const [, own = ''] = /^```dockerfile\n(.*?)^```$/ms.exec(page) ?? [];
  mkdirSync(path.join(shared, 'own'));
  cpSync(at('test/fixtures/apps/probe'), path.join(shared, 'own/liver'), { recursive: true });
  for (const [name, text] of [
    ['Containerfile', own],
    ['liver/requirements.txt', ''],
    ['ct.nii', 'voxels'],
  ] as const)
    writeFileSync(path.join(shared, 'own', name), text);
  output(...build, '--tag=liver', path.join(shared, 'own'));

  const token = 'SERVICE_API_TOKEN=a-token-of-this-test';
  const run = ['run', '--detach', '--health-interval=disable', ...here, '--volume=data:/data'];
  const logs = () => podman('logs', 'server').stderr + podman('logs', 'server').stdout;
  const listens = () => until('the server listens', () => /^Listening on /m.test(logs()), 60_000);
  const inside = (...words: string[]) => podman('exec', 'server', 'remote-app', ...words);

  const open = podman('run', '--rm', '--health-interval=disable', ...here, 'remote-app');
  expect([open.code, open.stderr]).toEqual([2, expect.stringContaining('there is no token')]);

  output(...run, '--name=server', `--env=${token}`, 'remote-app');
  await listens();
  expect(logs()).toMatch(/^WARNING: jobs run without a sandbox: .*--security-opt unmask=ALL \(Podman\)/m);
  expect(inside('apps').stdout).toContain('example');
  output('rm', '--force', 'server');

  const rights = ['--security-opt=unmask=ALL', '--security-opt=no-new-privileges', '--cap-drop=ALL'];
  const scan = `--volume=${path.join(shared, 'own/ct.nii')}:/mnt/ct.nii:ro`;
  output(...run, '--name=server', `--env=${token}`, ...rights, scan, 'liver', '--sandbox', 'bwrap');
  await listens();
  expect(output('healthcheck', 'run', 'server').trim()).not.toBe('unhealthy');
  expect(output('exec', 'server', 'id', '--user').trim()).toBe('10001');
  const first = inside('infer', '--app', 'liver', '/mnt/ct.nii', '-o', '/tmp/first');
  expect([first.code, first.stdout + first.stderr]).toEqual([
    0,
    expect.stringContaining('in a sandbox without network'),
  ]);
  const second = podman(...run, `--env=${token}`, 'liver');
  const refused = () => podman('logs', second.stdout.trim()).stderr;
  await until('a second server on the volume ends', () => refused().includes('Error'), 60_000);

  const long = inside('infer', '--app', 'liver', '--detach', '--set', 'shell=sleep 600', '/mnt/ct.nii');
  const id = long.stdout.trim();
  await until('the job runs', () => inside('status', id, '--json').stdout.includes('"running"'), 60_000);
  output('kill', '--signal=KILL', 'server');
  output('start', 'server');
  await until('the server is back', () => inside('health').code === 0, 60_000);
  const jobs = JSON.parse(inside('jobs', '--json').stdout) as { jobs: { job_id: string; status: string }[] };
  expect(Object.fromEntries(jobs.jobs.map((each) => [each.job_id, each.status]))).toMatchObject({
    [id]: 'error',
  });
  output('rm', '--force', '--all');
});
