import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { findProgram } from '../../../src/files/find-program.js';
import { systemCallFilter } from '../../../src/server/sandbox/system-call-filter.js';
import { Cli } from '../../support/cli.js';
import { sandbox } from '../../support/sandbox.js';
import { apps, TestServer } from '../../support/server.js';
import { temporary } from '../../support/temporary.js';

/** A PATH with Node alone, and with a bwrap, and what else is given, that do as they are told. */
async function pathWith(
  root: string,
  bwrap: string | null,
  others: Readonly<Record<string, string>> = {},
): Promise<string> {
  const programs = path.join(root, 'programs');
  mkdirSync(programs);
  const script = (name: string, text: string) =>
    writeFileSync(path.join(programs, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  // A link, which tells a sandbox where Node lies: a script would not, and outside /usr it could not be reached.
  symlinkSync(process.execPath, path.join(programs, 'node'));
  script('flock', 'exec /usr/bin/flock "$@"');
  script('mkfifo', 'exec /usr/bin/mkfifo "$@"');
  if (bwrap !== null) script('bwrap', bwrap);
  for (const [name, text] of Object.entries(others)) script(name, text);
  return programs;
}

const broken = 'echo "bwrap: No permissions to create new namespace" >&2; exit 1';

describe('serve --sandbox auto', () => {
  test.for([
    ['is not installed', null, /^WARNING: jobs run without a sandbox: bwrap is not installed .*bubblewrap/m],
    [
      'does not work',
      broken,
      /^WARNING: jobs run without a sandbox: bwrap does not work here .*No permissions.*AppArmor profile.*seccomp=unconfined/m,
    ],
    [
      'is kept from a system call',
      'echo "bwrap: openat2 failed: Function not implemented" >&2; exit 1',
      /^WARNING: .*bwrap does not work here .*RestrictSUIDSGID=yes in a systemd unit .*remove that/m,
    ],
    [
      'finds parts of /proc hidden',
      'echo "bwrap: Can\'t mount proc on /proc: Operation not permitted" >&2; exit 1',
      /^WARNING: .*bwrap does not work here .*unmask=ALL \(Podman\) or --security-opt systempaths=unconfined \(Docker\)/m,
    ],
  ] as const)(
    'serve --sandbox auto without a sandbox, because bwrap %s, says so',
    async ([, bwrap, warning]) => {
      await using root = await temporary();
      const environment = { PATH: await pathWith(root.path, bwrap) };
      await using server = await TestServer.start({
        runners: true,
        environment,
        flags: ['--sandbox', 'auto'],
      });
      expect(server.stderr).toMatch(warning);
      expect(server.stderr).not.toContain('--sandbox off');
      const { log, view } = await server.api.run('infer', { inputs: new File(['x'], 'ct.nii') });
      expect(view.status).toBe('done');
      expect(log).toContain('data: [remote-app] Starting infer on the CPU\n');
    },
  );

  test('With --sandbox auto, a bwrap that does not work is a problem for a check', async () => {
    await using root = await temporary();
    const environment = { PATH: await pathWith(root.path, broken) };
    await using cli = await Cli.create();
    const words = ['serve', '--check', '--port', '0', '--data-dir', 'data'];
    const { code, stdout } = await cli.run(words, environment);
    expect(stdout).toMatch(
      /^PROBLEM +sandbox: jobs would run without one: bwrap does not work here .*No perm/m,
    );
    expect(code).toBe(2);
    const { stdout: off } = await cli.run([...words, '--sandbox', 'off'], environment);
    expect(off).toMatch(/^note +sandbox: off/m);
  });

  test.runIf(sandbox)('A sandbox in which no app can stay loaded is a problem for a check', async () => {
    await using root = await temporary();
    const bwrap = `case "$*" in *CAP_SYS_ADMIN*) ${broken};; esac; exec ${findProgram('bwrap', process.env.PATH ?? '')} "$@"`;
    const environment = { PATH: `${await pathWith(root.path, bwrap)}:${process.env.PATH}` };
    await using cli = await Cli.create();
    const check = async (app: string) => {
      const words = ['serve', '--check', '--port', '0', '--data-dir', 'data', '--apps', app];
      return (await cli.run(words, environment)).stdout;
    };
    const problem = /^PROBLEM +sandbox: resident apps are started anew for each job: .*No perm/m;
    expect(await check(apps.resident)).toMatch(problem);
    expect(await check(apps.shell)).not.toMatch(problem);
  });

  test.runIf(sandbox)('With --sandbox auto, a server whose sandbox works says what jobs see', async () => {
    await using root = await temporary();
    const models = path.join(root.path, 'models');
    const cache = path.join(root.path, 'cache');
    for (const each of [models, cache]) mkdirSync(each);
    const linked = path.join(root.path, 'linked');
    cpSync(apps.shell, linked, { recursive: true });
    const weights = path.join(root.path, 'weights.pt');
    writeFileSync(weights, 'weights');
    writeFileSync(path.join(models, 'seen.pt'), 'weights');
    symlinkSync(weights, path.join(linked, 'CV_0.pt'));
    symlinkSync(path.join(models, 'seen.pt'), path.join(linked, 'CV_1.pt'));
    // A Python environment in the app, of a Python in a home directory.
    const [python, bin] = [path.join(root.path, 'pyenv/bin/python3'), path.join(linked, 'venv/bin')];
    for (const each of [path.dirname(python), bin]) mkdirSync(each, { recursive: true });
    writeFileSync(python, '#!/bin/sh\n', { mode: 0o755 });
    writeFileSync(path.join(linked, 'venv/pyvenv.cfg'), `home = ${path.dirname(python)}\n`);
    symlinkSync(python, path.join(bin, 'python'));
    const manifest = JSON.parse(readFileSync(path.join(linked, 'app.json'), 'utf8'));
    writeFileSync(
      path.join(linked, 'app.json'),
      JSON.stringify({ ...manifest, command: ['venv/bin/python'] }),
    );
    await using server = await TestServer.start({
      runners: true,
      apps: [linked, 'Lab/Model:CT'],
      environment: { HF_HOME: root.path, HF_HUB_OFFLINE: '1' },
      flags: ['--sandbox', 'auto', '--bind', models, '--bind-rw', cache],
    });
    expect(server.stderr).toMatch(
      new RegExp(
        `^Jobs run in sandboxes \\(bubblewrap .*\\)\\. .*, ${models}, ${cache} \\(writable\\)\\.$`,
        'm',
      ),
    );
    expect(server.stderr).toContain(
      `WARNING: HF_HOME=${root.path}: sandboxed jobs cannot see that directory`,
    );
    expect(server.stderr).toContain(`CV_0.pt leads to ${weights}: sandboxed jobs cannot see that directory`);
    expect(server.stderr).not.toContain('CV_1.pt');
    expect(server.stderr).not.toContain(python);
    expect(server.stderr).toContain('WARNING: Lab/Model:CT: its jobs have no network');
  });
});

test.runIf(sandbox)('A server does not warn about the environment that contains the engine', async () => {
  await using root = await temporary();
  const bin = path.join(root.path, 'venv', 'bin');
  mkdirSync(bin, { recursive: true });
  writeFileSync(path.join(root.path, 'venv', 'pyvenv.cfg'), '');
  writeFileSync(path.join(bin, 'konfai-apps'), '#!/bin/sh\n', { mode: 0o755 });
  const environment = {
    PATH: `${bin}:${process.env.PATH}`,
    VIRTUAL_ENV: path.dirname(bin),
    HF_HOME: root.path,
  };
  await using server = await TestServer.start({ runners: true, environment, flags: ['--sandbox', 'auto'] });
  expect(server.stderr).toContain(`WARNING: HF_HOME=${root.path}: sandboxed jobs cannot see that directory`);
  expect(server.stderr).not.toContain('VIRTUAL_ENV');
});

test.runIf(sandbox && systemCallFilter(process.arch))(
  'If the kernel cannot filter system calls, startup says so',
  async () => {
    await using root = await temporary();
    const without = 'echo "bwrap: prctl(PR_SET_SECCOMP): Invalid argument" >&2; exit 1';
    const bwrap = `case "$*" in *--seccomp*) ${without};; esac; exec ${findProgram('bwrap', process.env.PATH ?? '')} "$@"`;
    const environment = { PATH: `${await pathWith(root.path, bwrap)}:${process.env.PATH}` };
    await using server = await TestServer.start({
      runners: true,
      environment,
      flags: ['--sandbox', 'bwrap'],
    });
    const told =
      /^WARNING: jobs share this user's keys in the kernel, .*PR_SET_SECCOMP\): Invalid argument\)\.$/gm;
    expect(server.stderr.match(told), server.stderr).toHaveLength(1);
    const { log, view } = await server.api.run('infer', { inputs: new File(['x'], 'ct.nii') });
    expect(view.status).toBe('done');
    expect(log).toContain('in a sandbox without network\n');
    await using cli = await Cli.create();
    const { stdout } = await cli.run(['serve', '--check', '--port', '0', '--data-dir', 'data'], environment);
    expect(stdout).toMatch(/^note +sandbox: system calls cannot be filtered here/m);
  },
);

test('With --sandbox off, a server says nothing about the sandbox', async () => {
  await using server = await TestServer.start({ flags: ['--sandbox', 'off'] });
  expect(server.stderr).not.toMatch(/sandbox/i);
});

describe('serve refuses to start', () => {
  /** What a start that is refused says. */
  async function refusal(
    flags: readonly string[],
    environment: Record<string, string> = {},
    wrapper: readonly string[] = [],
  ) {
    await using cli = await Cli.create();
    const words = [
      'serve',
      '--port',
      '0',
      ...(flags.includes('--data-dir') ? [] : ['--data-dir', 'data']),
      ...flags,
    ];
    if (wrapper.length === 0) return cli.refusedStart(words, environment);
    return (await cli.runProcess(words, environment, '', wrapper)).stderr;
  }

  test('A server refuses to start with --sandbox bwrap where bwrap does not work', async () => {
    await using root = await temporary();
    const environment = { PATH: await pathWith(root.path, broken) };
    expect(await refusal(['--sandbox', 'bwrap'], environment)).toMatch(
      /--sandbox bwrap: bwrap does not work here .*No permissions.*AppArmor profile/,
    );
  });

  test('A server refuses to start by naming the other server that has the data directory, even if the sandbox is broken', async () => {
    await using root = await temporary();
    const environment = { PATH: await pathWith(root.path, broken) };
    await using server = await TestServer.start({ runners: true, environment, flags: ['--sandbox', 'off'] });
    const flags = ['--sandbox', 'bwrap', '--data-dir', server.dataDirectory];
    expect(await refusal(flags, environment)).toMatch(/^.*Another server .* uses the data directory/);
  });

  test('A server refuses to start on a file system without FIFOs', async () => {
    await using root = await temporary();
    const mkfifo = 'echo "mkfifo: cannot create fifo: Operation not permitted" >&2; exit 1';
    const PATH = await pathWith(root.path, null, { mkfifo });
    expect(await refusal([], { PATH })).toMatch(
      /The file system of the data directory .* has no named pipes \(FIFOs\)/,
    );
  });

  test.runIf(sandbox)('--sandbox bwrap is refused where the kernel allows no user namespaces', async () => {
    const forbid = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"';
    const wrapper = ['unshare', '--user', '--map-root-user', 'sh', '-c', forbid, 'sh'];
    expect(await refusal(['--sandbox', 'bwrap'], {}, wrapper)).toMatch(
      /bwrap does not work here \(bwrap: .*namespace.*\); this user may not make namespaces: (?!.*--sandbox off)/,
    );
  });

  test.for([
    [['--bind', '/no/such/place'], /--bind \/no\/such\/place: there is no such file or directory/],
    [['--bind-rw', '/'], /--bind-rw \/: the data directory .* is there/],
    [['--sandbox', 'off', '--memory-per-job', '8GiB'], /--memory-per-job is held by the sandbox of a job/],
    [['--network', 'nobody'], /--network nobody: there is no such app; there are: none/],
  ] as const)('serve refuses to start with %j', async ([flags, sentence]) => {
    expect(await refusal(flags)).toMatch(sentence);
  });
});
