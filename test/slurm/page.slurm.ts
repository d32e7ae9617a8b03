import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { freePort } from '../support/ports.mjs';
import { addressIn, hasEnded } from '../support/serve.mjs';
import { apps } from '../support/server.js';
import { gpuNodes } from '../support/slurm/configuration.mjs';
import { until } from '../support/until.mjs';
import { sharedCluster } from './support/shared-cluster.js';

const page = readFileSync(new URL('../../docs/slurm.md', import.meta.url), 'utf8');
const tool = fileURLToPath(new URL('../../tools/debian-package.mjs', import.meta.url));
const slurm = sharedCluster({ nodes: gpuNodes, partitions: [{ name: 'gpu', settings: 'Default=YES' }] });
/** Somebody without rights, who is on every machine. */
const user = { name: 'nobody', id: 65534 };

/** The blocks of a section of the page in this language. */
function blocks(section: string, language: string): string[] {
  const [, text = ''] = new RegExp(`^## ${section}$(.*?)(?=^## |$(?![\\s\\S]))`, 'ms').exec(page) ?? [];
  const found = [...text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))];
  if (found.length === 0) throw new Error(`The section ${section} has no ${language}`);
  return found.map(([, block = '']) => block);
}

test('Docs/slurm.md leads a user without special rights from nothing to a service, and through an upgrade', async () => {
  await using cli = await Cli.create();
  const home = path.join(slurm.cluster.shared, 'home');
  const port = await freePort();
  mkdirSync(home);
  chmodSync(home, 0o700);
  for (const version of ['0.1.0', 'NEW']) {
    execFileSync(process.execPath, [tool, home, version === 'NEW' ? '0.1.1' : version], { stdio: 'ignore' });
  }
  execFileSync('mv', [
    path.join(home, 'remote-app_0.1.1_all.deb'),
    path.join(home, 'remote-app_NEW_all.deb'),
  ]);
  execFileSync('chown', ['-R', String(user.id), home]);

  const here = (text: string): string =>
    text
      .replaceAll('/shared/remote-app', home)
      .replaceAll('/usr/bin/node', process.execPath)
      .replaceAll('port: 8000', `port: ${port}`)
      .replaceAll('127.0.0.1:8000', `127.0.0.1:${port}`)
      .replaceAll('--user=remote-app', `--user=${user.name}`)
      .replaceAll(/^sudo systemctl .*$/gm, '');
  const options = {
    cwd: home,
    uid: user.id,
    gid: user.id,
    env: { PATH: process.env.PATH, HOME: home, ...slurm.cluster.environment },
  };
  const follow = (script: string): string => {
    const { status, stdout, stderr } = spawnSync('sh', ['-ec', here(script)], {
      ...options,
      encoding: 'utf8',
    });
    expect([status, stderr], `${here(script)}\n${stdout}${stderr}`).toEqual([0, expect.any(String)]);
    return stdout + stderr;
  };

  const [unpack = '', look = ''] = blocks('2. The program', 'sh');
  follow(unpack);
  const seen = follow(look).split('\n');
  expect(seen).toEqual(expect.arrayContaining(['n1', 'n2', process.version, 'apps', 'data', 'program']));
  cpSync(apps.probe, path.join(home, 'apps', 'probe'), { recursive: true });

  const [configuration = ''] = blocks('3. The configuration', 'yaml');
  writeFileSync(path.join(home, 'serve.yaml'), here(configuration));
  const [check = ''] = blocks('3. The configuration', 'sh');
  expect(follow(check)).toMatch(/^ok +.*[Ss]lurm/m);

  const [unit = ''] = blocks('4. The service', 'ini');
  const [, words = ''] = /^ExecStart=(.*)$/m.exec(here(unit)) ?? [];
  const start = async (): Promise<ChildProcess> => {
    const [program = '', ...rest] = words.split(' ');
    const child = spawn(program, rest, { ...options, stdio: ['ignore', 'pipe', 'inherit'] });
    onTestFinished(() => void child.kill('SIGKILL'));
    let said = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      said += chunk;
    });
    await until('it listens', () => {
      if (hasEnded(child)) throw new Error(`serve ended: ${said}`);
      return addressIn(said);
    });
    return child;
  };
  const stop = async (child: ChildProcess): Promise<void> => {
    const exit = once(child, 'exit');
    child.kill('SIGTERM');
    await exit;
    expect(child.exitCode).toBe(0);
  };

  let service = await start();
  const token = readFileSync(path.join(home, 'token'), 'utf8').trim();
  const env = { REMOTE_APP_SERVER: `http://127.0.0.1:${port}`, SERVICE_API_TOKEN: token };
  const refused = await cli.runProcess(['jobs'], { ...env, SERVICE_API_TOKEN: 'wrong' });
  expect(refused.code).toBe(4);
  expect((await cli.runProcess(['gpus'], env)).stdout).toMatch(/a100.*n1[\s\S]*a100.*n2/);
  writeFileSync(path.join(cli.directory, 'ct.nii'), 'ct');
  const ran = await cli.runProcess(['infer', 'ct.nii', '-o', 'Result'], env);
  expect([ran.code, ran.stdout], ran.stderr).toEqual([0, expect.stringMatching(/^probe infer$/m)]);
  const record = readFileSync(path.join(cli.directory, 'Result', 'probe.json'), 'utf8');
  expect(JSON.parse(record).env).toMatchObject({ SLURMD_NODENAME: expect.stringMatching(/^n[12]$/) });

  // The upgrade, over a job that runs.
  const gate = path.join(home, 'gate');
  const waiting = await cli.runProcess(
    ['infer', '--detach', '--keep', '1h', '--set', `wait=${gate}`, 'ct.nii'],
    env,
  );
  const id = waiting.stdout.trim();
  await slurm.reaches(id, 'RUNNING');
  const [list = ''] = blocks('What the admin of the cluster sees', 'sh');
  const [squeue = ''] = list.split('\n');
  expect(follow(squeue)).toContain(`remote-app-${id}`);
  const [upgrade = ''] = blocks('Upgrade', 'sh');
  follow(upgrade);
  await stop(service);
  service = await start();
  await until('the new server has found the job running', async () =>
    (await cli.runProcess(['status', id, '--json'], env)).stdout.includes('"running"'),
  );
  writeFileSync(gate, '');
  const waited = await cli.runProcess(['wait', id], env);
  expect([waited.code, waited.stdout]).toEqual([0, expect.stringContaining('done')]);
  await stop(service);
});

test('Docs/slurm.md names every Slurm flag, and no others', () => {
  const flags = execFileSync(
    process.execPath,
    [fileURLToPath(new URL('../../bin/run.js', import.meta.url)), 'serve', '--help'],
    {
      encoding: 'utf8',
    },
  );
  const real = new Set([...flags.matchAll(/--(slurm-[a-z]+)/g)].map(([, name]) => name));
  const named = new Set([...page.matchAll(/\b(slurm-(?!wlm)[a-z]+)\b(?!\.md)/g)].map(([, name]) => name));
  expect([...named].toSorted()).toEqual([...real].toSorted());
});
