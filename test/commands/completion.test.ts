import { execFile } from 'node:child_process';
import { symlinkSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { type Fake, fakeService } from '../support/fake-service.js';
import { lacks } from '../support/needs.mjs';
import { json, type ScriptedServer } from '../support/scripted-server.js';
import { plant } from '../support/temporary.js';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const fixture = (name: string) => path.join(root, 'test/fixtures/shells', name);

const jobs = [
  { job_id: 'aa01bc23de45', status: 'running', app: 'tissue', operation: 'infer', tag: 'study-7' },
  { job_id: 'bb01bc23de45', status: 'done', app: 'lungs', operation: 'evaluate', tag: 'study-7' },
];

const described = {
  app: 'tissue',
  available: true,
  display_name: 'Tissue',
  checkpoints_name: ['CV_0.pt', 'CV_1.pt'],
  parameters: { scale: { default: 1 }, mode: { default: 'fast' } },
};

const fake: Fake = {
  apps: ['VBoussot/ImpactSynth:MR', 'VBoussot/ImpactSynth:CT', 'tissue'],
  override: ({ url }, response) => {
    const answer = { '/jobs': { jobs }, '/repo_apps/tissue': described }[url];
    if (answer) json(response, 200, answer);
    return answer !== undefined;
  },
};

/** What a shell shows after Tab was pressed on a line. */
type Complete = (line: string) => Promise<string>;

/** A directory with the script of each shell, and `remote-app` on PATH. */
async function shellsIn(cli: Cli, env: NodeJS.ProcessEnv) {
  const bin = path.join(cli.directory, 'bin');
  await plant(cli.directory, {
    'bin/': '',
    'scans/ct.nii': '',
    'scan.nii': '',
    'ordinary.txt': '',
  });
  symlinkSync(path.join(root, 'bin/run.js'), path.join(bin, 'remote-app'));
  const options = {
    cwd: cli.directory,
    env: {
      PATH: [bin, path.dirname(process.execPath), process.env.PATH].join(path.delimiter),
      HOME: cli.home,
      XDG_CONFIG_HOME: cli.home,
      TERM: 'dumb',
      LC_ALL: 'C.UTF-8',
      ...env,
    },
  };
  const complete = async (shell: string): Promise<Complete> => {
    const script = path.join(cli.directory, `script.${shell}`);
    const { stdout } = await cli.run(['completion', shell]);
    await plant(cli.directory, { [path.basename(script)]: stdout });
    const commands: Record<string, string[]> = {
      bash: ['--norc', fixture('complete.bash')],
      zsh: ['-f', fixture('complete.zsh')],
      fish: ['--no-config', '-c', 'source $argv[1]; complete -C "$argv[2]"'],
    };
    return async (line) => {
      const { stdout: seen, stderr } = await run(shell, [...(commands[shell] ?? []), script, line], options);
      expect(stderr).toBe('');
      return seen;
    };
  };
  return { complete, options };
}

async function withShell(
  shell: string,
  use: (complete: Complete, server: ScriptedServer, cli: Cli) => Promise<void>,
  env: NodeJS.ProcessEnv = {},
): Promise<void> {
  await using cli = await Cli.create();
  await using server = await fakeService(fake);
  const { complete } = await shellsIn(cli, { REMOTE_APP_SERVER: server.url, ...env });
  await use(await complete(shell), server, cli);
}

for (const shell of ['bash', 'zsh', 'fish'] as const)
  describe.skipIf(lacks(shell))(shell, () => {
    test('completes commands and flags', { timeout: 120_000 }, () =>
      withShell(shell, async (complete) => {
        expect(await complete('remote-app inf')).toMatch(/\binfer\b/);
        const all = await complete('remote-app ');
        for (const name of ['apps', 'completion', 'fine-tune', 'infer', 'serve']) expect(all).toContain(name);
        expect(all).not.toMatch(/\beval\b/);
        const flags = await complete('remote-app infer --ens');
        expect(flags).toContain('--ensemble');
        expect(flags).toContain('--ensemble-models');
        expect(await complete('remote-app eval --mas')).toContain('--mask');
        expect(await complete('remote-app health --ens')).not.toContain('--ensemble');
        expect(await complete('remote-app completion --val')).not.toContain('--values');
        expect(await complete('remote-app tok')).toMatch(/\btoken\b/);
        expect(await complete('remote-app token ro')).toMatch(/\brotate\b/);
        expect(await complete('remote-app token create --exp')).toContain('--expires');
      }),
    );

    test('completes values: fixed lists, apps, jobs, profiles, GPUs', { timeout: 120_000 }, () =>
      withShell(shell, async (complete, server, cli) => {
        expect(await complete('remote-app serve --auth b')).toMatch(/\bbearer\b/);
        expect(await complete('remote-app infer --app t')).toMatch(/\btissue\b/);
        expect(await complete('remote-app infer -a t')).toMatch(/\btissue\b/);
        expect(await complete('remote-app apps t')).toMatch(/\btissue\b/);
        const list = await complete('remote-app logs ');
        for (const { job_id } of jobs) expect(list).toContain(job_id);
        expect(list.includes('running infer tissue')).toBe(shell !== 'bash');
        const kill = await complete('remote-app kill ');
        expect([kill.includes('aa01bc23de45'), kill.includes('bb01bc23de45')]).toEqual([true, false]);
        expect(await complete('remote-app kill aa01bc23de45 ')).not.toMatch(/aa01\S* +aa01/);
        expect(await complete('remote-app status aa01bc23de45 ')).not.toContain('bb01bc23de45');
        expect(await complete('remote-app status --connect-timeout 3 bb')).toContain('bb01bc23de45');
        expect(await complete('remote-app infer --gpu 0,')).toContain('0,2');
        expect(await complete('remote-app jobs --status wai')).toMatch(/\bwaiting\b/);
        const states = await complete('remote-app jobs --status running,');
        expect([states.includes('running,killed'), states.includes('running,running')]).toEqual([
          true,
          false,
        ]);
        await cli.run(['login', '--server', server.url, '--profile', 'laboratory'], {}, '\n');
        expect(await complete('remote-app health --profile lab')).toContain('laboratory');
      }),
    );

    test('completes parameters and checkpoints of the app, and tags', { timeout: 120_000 }, () =>
      withShell(shell, async (complete) => {
        expect(await complete('remote-app infer --app tissue --set sc')).toMatch(/\bscale=/);
        expect(await complete('remote-app infer -a tissue --set ')).toMatch(/\bmode=/);
        // Of which app is not known.
        expect(await complete('remote-app infer --set sc')).not.toContain('scale=');
        expect(await complete('remote-app infer -a tissue --ensemble-models CV_0.pt,')).toContain(
          'CV_0.pt,CV_1.pt',
        );
        expect(await complete('remote-app fine-tune -a tissue --models CV')).toContain('CV_1.pt');
        for (const command of ['jobs', 'wait', 'infer'])
          expect(await complete(`remote-app ${command} --tag stu`)).toContain('study-7');
      }),
    );

    test('completes identifiers with slashes and colons', { timeout: 120_000 }, () =>
      withShell(shell, async (complete) => {
        for (const flag of ['--app ', '--app=']) {
          const seen = await complete(`remote-app infer ${flag}VBoussot/ImpactSynth:M`);
          // bash replaces what follows the last colon.
          expect(seen).toMatch(shell === 'bash' ? /^MR$/m : /VBoussot\/ImpactSynth:MR\b/);
          expect(seen).not.toContain('CT');
        }
      }),
    );

    test('completes files and directories only for arguments that take them', { timeout: 120_000 }, () =>
      withShell(shell, async (complete) => {
        const files = await complete('remote-app infer scan');
        expect(files).toMatch(/scan\.nii/);
        expect(files).toMatch(/\bscans\b/);
        expect(await complete('remote-app infer --token-file ord')).toContain('ordinary.txt');
        const directories = await complete('remote-app infer --output sc');
        expect(directories).toMatch(/\bscans\b/);
        expect(directories).not.toContain('scan.nii');
        expect(await complete('remote-app jobs ord')).not.toContain('ordinary.txt');
        // A file of the app, which this machine does not have.
        expect(await complete('remote-app infer --prediction-file ord')).not.toContain('ordinary.txt');
      }),
    );

    test('asks the server that the command line names, with its token', { timeout: 120_000 }, async () => {
      await using other = await fakeService({ apps: ['elsewhere'], token: 'secret' });
      await withShell(shell, async (complete, server, cli) => {
        await plant(cli.directory, { token: 'secret' });
        const flags = `--server ${other.url} --token-file ./token`;
        expect(await complete(`remote-app infer ${flags} --app el`)).toMatch(/\belsewhere\b/);
        expect(server.received).toEqual([]);
        await cli.run(['login', '--server', other.url, '--profile', 'lab'], {}, 'secret\n');
        expect(await complete('remote-app infer --profile=lab --app el')).toMatch(/\belsewhere\b/);
      });
    });

    test('runs no command that a server puts into its lists', { timeout: 120_000 }, async () => {
      const planted = [
        '$(touch planted)',
        '`touch planted`',
        'x;touch planted',
        "'$(touch planted)'",
        '\u001b[2Jx',
      ];
      await using hostile = await fakeService({ apps: planted });
      await withShell(
        shell,
        async (complete, _server, cli) => {
          const seen = await complete('remote-app infer --app ');
          expect(seen).toMatch(/touch\\? planted/);
          expect(seen).not.toContain('\u001b[2Jx');
          await complete('remote-app infer --app x');
          await expect(run('ls', ['planted'], { cwd: cli.directory })).rejects.toThrow();
        },
        { REMOTE_APP_SERVER: hostile.url },
      );
    });

    test('offers and prints nothing if no server answers', { timeout: 120_000 }, () =>
      withShell(
        shell,
        async (complete) => {
          expect((await complete('remote-app infer --app t')).replace(/^.*<</s, '')).not.toContain('tissue');
        },
        { REMOTE_APP_SERVER: 'http://127.0.0.1:1' },
      ),
    );
  });

describe('completion --values', () => {
  test('waits a second for a server, and then gives up without a message', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({ override: () => true });
    const began = performance.now();
    const args = ['completion', '--values', 'apps', '--', 'infer', '--server', server.url, '--app', ''];
    const { code, stdout, stderr } = await cli.run(args);
    expect([code, stdout, stderr]).toEqual([0, '', '']);
    expect(server.to('/repo_apps_list')).toHaveLength(1);
    expect(performance.now() - began).toBeLessThan(5000);
  });

  test.each([
    ['a wrong token', { REMOTE_APP_SERVER: 'SERVER', SERVICE_API_TOKEN: 'wrong' }, []],
    ['no such profile', {}, ['--profile', 'nobody']],
    ['an address that is none', { REMOTE_APP_SERVER: '::' }, []],
    ['a token file that is missing', {}, ['--token-file', 'none']],
    ['a flag that is not finished', { REMOTE_APP_SERVER: 'SERVER' }, ['--server']],
  ])('is silent with %s', async (_, env: NodeJS.ProcessEnv, words) => {
    await using cli = await Cli.create();
    await using server = await fakeService({ token: 'right' });
    const environment = env.REMOTE_APP_SERVER === 'SERVER' ? { ...env, REMOTE_APP_SERVER: server.url } : env;
    const args = ['completion', '--values', 'jobs', '--', 'logs', ...words, ''];
    const { code, stdout, stderr } = await cli.run(args, environment);
    expect([code, stdout, stderr]).toEqual([0, '', '']);
  });

  test('without a shell is a wrong command line', async () => {
    await using cli = await Cli.create();
    const { code, stderr } = await cli.run(['completion']);
    expect([code, stderr]).toEqual([2, 'Error: Name a shell: bash, zsh, fish\n']);
  });
});
