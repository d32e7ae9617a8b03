import { execFile } from 'node:child_process';
import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { type Fake, fakeService } from '../support/fake-service.js';
import { lacks } from '../support/needs.mjs';
import { json } from '../support/scripted-server.js';
import { plant, temporary } from '../support/temporary.js';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const fixture = (name: string) => path.join(root, 'test/fixtures/shells', name);

/** What each shell shows after Tab was pressed on these lines. */
type Complete = (...lines: string[]) => Promise<string[]>;

const completing = {
  bash: ['--norc', fixture('complete.bash')],
  zsh: ['-f', fixture('complete.zsh')],
  fish: ['--no-config', fixture('complete.fish')],
} as const;

type Shell = keyof typeof completing;

/** Where zsh keeps what it found about the system's completions, which takes it a second. */
const found = await temporary();
afterAll(() => found[Symbol.asyncDispose]());

/** A shell with our script in a directory with some files. `remote-app` on its PATH is this program. */
async function shellWith(shell: Shell, cli: Cli, program: string, env: NodeJS.ProcessEnv) {
  const { stdout: script } = await cli.run(['completion', shell]);
  await plant(cli.directory, { script, 'bin/': '', 'scans/ct.nii': '', 'scan.nii': '', 'ordinary.txt': '' });
  const bin = path.join(cli.directory, 'bin');
  symlinkSync(program, path.join(bin, 'remote-app'));
  const options = {
    cwd: cli.directory,
    env: {
      PATH: [bin, path.dirname(process.execPath), process.env.PATH].join(path.delimiter),
      HOME: cli.home,
      XDG_CONFIG_HOME: cli.home,
      ZDOTDIR: found.path,
      TERM: 'dumb',
      LC_ALL: 'C.UTF-8',
      ...env,
    },
  };
  const complete: Complete = async (...lines) => {
    const words = [...completing[shell], path.join(cli.directory, 'script'), ...lines];
    const { stdout, stderr } = await run(shell, words, options);
    expect(stderr).toBe('');
    const seen = stdout.split('\u001e');
    expect(seen).toHaveLength(lines.length + 1);
    return seen;
  };
  return complete;
}

/** A shell whose `remote-app` offers these lines, in place of the program; `asked` is what it was called with. */
async function withOffers(
  shell: Shell,
  lines: readonly string[],
  use: (complete: Complete, asked: () => string[][], cli: Cli) => Promise<void>,
): Promise<void> {
  await using cli = await Cli.create();
  const [offers, file] = ['offers', 'asked'].map((name) => path.join(cli.home, name));
  await plant(cli.home, { offers: lines.map((line) => `${line}\n`).join(''), asked: '' });
  const asked = () =>
    readFileSync(file as string, 'utf8')
      .split('\u001f\n')
      .slice(0, -1)
      .map((words) => words.split('\u001f'));
  const complete = await shellWith(shell, cli, fixture('remote-app'), { OFFERS: offers, ASKED: file });
  await use(complete, asked, cli);
}

for (const shell of ['bash', 'zsh', 'fish'] as const)
  describe.skipIf(lacks(shell))(shell, () => {
    test('Completion passes on the words up to the cursor, and shows the offers that match the last one', () =>
      withOffers(
        shell,
        ['aa01bc23de45\trunning infer tissue', 'bb01bc23de45\tdone evaluate lungs', '--app\tThe app'],
        async (complete, asked) => {
          const lines = ['logs ', 'status --connect-timeout 3 bb', 'infer --a', 'kill'];
          const [all, one, flag, none] = await complete(...lines.map((line) => `remote-app ${line}`));
          expect(asked()).toEqual(lines.map((line) => ['completion', '--offers', '--', ...line.split(' ')]));
          expect(all).toMatch(/aa01bc23de45.*bb01bc23de45/s);
          expect(all?.includes('running infer tissue')).toBe(shell !== 'bash');
          expect(one).toMatch(/bb01bc23de45/);
          expect(one).not.toMatch(/aa01bc23de45/);
          expect(flag).toContain('--app');
          expect(none).not.toMatch(/bc23de45/);
        },
      ));

    test('Completion completes identifiers with slashes and colons, even after an equals sign', () =>
      withOffers(
        shell,
        ['VBoussot/ImpactSynth:MR', 'VBoussot/ImpactSynth:CT', 'tissue'],
        async (complete, asked) => {
          const flags = ['--app ', '--app='];
          const seen = await complete(
            ...flags.map((flag) => `remote-app infer ${flag}VBoussot/ImpactSynth:M`),
          );
          for (const each of seen.slice(0, flags.length)) {
            // bash replaces what follows the last colon.
            expect(each).toMatch(shell === 'bash' ? /^MR$/m : /VBoussot\/ImpactSynth:MR\b/);
            expect(each).not.toContain('CT');
          }
          expect(asked().map((words) => words.slice(3))).toEqual([
            ['infer', '--app', 'VBoussot/ImpactSynth:M'],
            ['infer', '--app=VBoussot/ImpactSynth:M'],
          ]);
        },
      ));

    test('Completion completes files if the program says so', () =>
      withOffers(shell, [':files'], async (complete) => {
        for (const seen of (await complete('remote-app infer sca', 'remote-app infer --mask=sca')).slice(
          0,
          2,
        )) {
          expect(seen).toMatch(/scan\.nii/);
          expect(seen).toMatch(/\bscans\b/);
          expect(seen).not.toContain('ordinary.txt');
        }
      }));

    test('Completion completes directories if the program says so', () =>
      withOffers(shell, [':directories'], async (complete) => {
        for (const seen of (await complete('remote-app init sca', 'remote-app infer --output=sca')).slice(
          0,
          2,
        )) {
          expect(seen).toMatch(/\bscans\b/);
          expect(seen).not.toContain('scan.nii');
        }
      }));

    test('Completion runs no command that is part of an offer', () =>
      withOffers(
        shell,
        ['$(touch planted)', '`touch planted`', 'x;touch planted', "'$(touch planted)'"],
        async (complete, _, cli) => {
          const [seen] = await complete('remote-app infer --app ', 'remote-app infer --app x');
          expect(seen).toMatch(/touch\\? planted/);
          // zsh and fish themselves quote what they insert.
          if (shell === 'bash') expect(seen).toContain('\\$\\(touch\\ planted\\)');
          expect(existsSync(path.join(cli.directory, 'planted'))).toBe(false);
        },
      ));

    test('Completion shows nothing if the program offers nothing', () =>
      withOffers(shell, [], async (complete, asked) => {
        const [seen = ''] = await complete('remote-app infer --app t');
        expect(seen.replace(/^.*<</s, '')).not.toMatch(/tissue|No such file/);
        expect(asked()).toHaveLength(1);
      }));

    test('Completion shows the offers of the program itself, from the server on the command line, with its token', async () => {
      await using cli = await Cli.create();
      await using server = await fakeService({ apps: ['elsewhere'], token: 'secret' });
      await plant(cli.directory, { token: 'secret' });
      const complete = await shellWith(shell, cli, path.join(root, 'bin/run.js'), {});
      const flags = `--server ${server.url} --token-file ./token`;
      const [seen] = await complete(`remote-app infer ${flags} --app el`);
      expect(seen).toMatch(/\belsewhere\b/);
    });
  });

const jobs = [
  { job_id: 'aa01bc23de45', status: 'running', app: 'tissue', operation: 'infer' },
  { job_id: 'bb01bc23de45', status: 'done', app: 'lungs', operation: 'evaluate' },
];

const fake: Fake = {
  apps: ['lungs', 'tissue'],
  override: ({ url }, response) => {
    if (url !== '/jobs') return false;
    json(response, 200, { jobs });
    return true;
  },
};

/** What the program offers behind these words, the last of which is being typed. */
async function offered(cli: Cli, words: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string[]> {
  const { code, stdout, stderr } = await cli.run(['completion', '--offers', '--', ...words], env);
  expect([code, stderr]).toEqual([0, '']);
  return stdout.split('\n').slice(0, -1);
}

describe('completion --offers', () => {
  const [running, done] = ['aa01bc23de45\trunning infer tissue', 'bb01bc23de45\tdone evaluate lungs'];

  test.each<[line: string, offers: readonly string[]]>([
    ['infer --app t', ['lungs', 'tissue']],
    ['infer -a t', ['lungs', 'tissue']],
    ['apps t', ['lungs', 'tissue']],
    ['logs ', [running, done]],
    ['status --connect-timeout 3 bb', [running, done]],
    // This command takes one job.
    ['status aa01bc23de45 ', []],
    ['kill ', [running]],
    ['kill aa01bc23de45 ', []],
    ['rm ', [done]],
    ['infer --set sc', []],
    // Behind -- there are no flags.
    ['infer -- --app tissue --set ', [':files']],
    ['infer scan', [':files']],
    ['infer --json scan', [':files']],
    ['infer --token-file ord', [':files']],
    ['convert --like scan', [':files']],
    ['infer --output sc', [':directories']],
    ['init sc', [':directories']],
    // A file of the app, which this machine does not have.
    ['infer --prediction-file ord', []],
    ['wait --timeout ', []],
    ['nothing ', []],
    ['serve --auth b', ['bearer', 'required', 'off']],
    [
      'jobs queued running done error --status=killed,',
      ['killed,queued', 'killed,waiting', 'killed,running', 'killed,done', 'killed,error'],
    ],
    ['--v', ['--help\tShow help', '--version\tShow the version']],
  ])('The line %j gets the offers %j', async (line, offers) => {
    await using cli = await Cli.create();
    await using server = await fakeService(fake);
    expect(await offered(cli, line.split(' '), { REMOTE_APP_SERVER: server.url })).toEqual(offers);
  });

  test('The program offers commands, the members of a topic, and the flags of a command that can still be typed', async () => {
    await using cli = await Cli.create();
    const values = async (line: string) =>
      (await offered(cli, line.split(' '))).map((each) => each.replace(/\t.*/, ''));
    const commands = await values('inf');
    for (const name of ['apps', 'completion', 'fine-tune', 'infer', 'serve', 'token'])
      expect(commands).toContain(name);
    expect(commands).not.toContain('eval');
    expect(await values('help inf')).toEqual(commands);
    expect(await values('token ro')).toEqual(['create', 'limit', 'list', 'revoke', 'rotate']);
    expect(await offered(cli, ['token', ''])).toContainEqual(expect.stringMatching(/^rotate\t[A-Z]/));
    expect(await values('token create --exp')).toContain('--expires');
    const flags = await values('infer --ensemble 2 --set a=1 --e');
    for (const name of ['--ensemble-models', '--set', '--help']) expect(flags).toContain(name);
    expect(flags).not.toContain('--ensemble');
    expect(await values('eval --mas')).toContain('--mask');
    expect(await values('pipeline --no')).toContain('--no-uncertainty');
    expect(await values('health --ens')).not.toContain('--ensemble');
    expect(await values('completion --off')).not.toContain('--offers');
  });

  test('The program asks the server on the command line, with its token or its profile', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService(fake);
    await using other = await fakeService({ apps: ['elsewhere'], token: 'secret' });
    await plant(cli.directory, { token: 'secret' });
    const env = { REMOTE_APP_SERVER: server.url };
    const named = ['infer', '--server', other.url, '--token-file', './token', '--app', 'el'];
    expect(await offered(cli, named, env)).toEqual(['elsewhere']);
    await cli.run(['login', '--server', other.url, '--profile', 'lab'], {}, 'secret\n');
    expect(await offered(cli, ['infer', '--profile=lab', '--app', 'el'], env)).toEqual(['elsewhere']);
    expect(server.received).toEqual([]);
    expect(await offered(cli, ['health', '--profile', ''])).toEqual([`lab\t${other.url}`]);
  });

  test('The program leaves out what no shell can show', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({ apps: ['\u001b[2Jx', 'a\nb', '$(touch planted)'] });
    expect(await offered(cli, ['infer', '--app', ''], { REMOTE_APP_SERVER: server.url })).toEqual([
      '$(touch planted)',
    ]);
  });

  test('The program waits two seconds for a server, and then gives up without a message', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({ override: () => true });
    const began = performance.now();
    expect(await offered(cli, ['infer', '--server', server.url, '--app', ''])).toEqual([]);
    expect(server.to('/repo_apps_list')).toHaveLength(1);
    expect(performance.now() - began).toBeLessThan(5000);
  });

  test.each([
    ['a wrong token', { REMOTE_APP_SERVER: 'SERVER', SERVICE_API_TOKEN: 'wrong' }, []],
    ['no such profile', {}, ['--profile', 'nobody']],
    ['no server that answers', { REMOTE_APP_SERVER: 'http://127.0.0.1:1' }, []],
    ['an address that is none', { REMOTE_APP_SERVER: '::' }, []],
    ['a token file that is missing', {}, ['--token-file', 'none']],
    ['a flag that is not finished', { REMOTE_APP_SERVER: 'SERVER' }, ['--server']],
  ])('The program is silent with %s', async (_, env: NodeJS.ProcessEnv, words) => {
    await using cli = await Cli.create();
    await using server = await fakeService({ token: 'right' });
    const environment = env.REMOTE_APP_SERVER === 'SERVER' ? { ...env, REMOTE_APP_SERVER: server.url } : env;
    expect(await offered(cli, ['logs', ...words, ''], environment)).toEqual([]);
  });

  test('A request for a script without a shell is a usage error', async () => {
    await using cli = await Cli.create();
    const { code, stderr } = await cli.run(['completion']);
    expect([code, stderr]).toEqual([2, 'Error: Name a shell: bash, zsh, fish\n']);
  });
});
