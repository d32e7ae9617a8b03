import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs';
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

/** The words that the shell's script has asked the program for values with, since the last look. */
type Asked = () => string[][];

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

/** A shell whose `remote-app` offers these values of each kind, in place of the program. */
async function withOffers(
  shell: Shell,
  offers: Readonly<Record<string, readonly string[]>>,
  use: (complete: Complete, asked: Asked, cli: Cli) => Promise<void>,
): Promise<void> {
  await using cli = await Cli.create();
  const directory = path.join(cli.home, 'offers');
  mkdirSync(directory);
  await plant(
    directory,
    Object.fromEntries(Object.entries(offers).map(([kind, lines]) => [kind, `${lines.join('\n')}\n`])),
  );
  const file = path.join(cli.home, 'asked');
  let seen = 0;
  const asked: Asked = () => {
    const all = existsSync(file) ? readFileSync(file, 'utf8').split('\u001f\n').slice(0, -1) : [];
    const since = all.slice(seen).map((words) => words.split('\u001f'));
    seen = all.length;
    return since;
  };
  const complete = await shellWith(shell, cli, fixture('remote-app'), { OFFERS: directory, ASKED: file });
  await use(complete, asked, cli);
}

for (const shell of ['bash', 'zsh', 'fish'] as const)
  describe.skipIf(lacks(shell))(shell, () => {
    test('Completes commands, flags and fixed lists without asking for values', () =>
      withOffers(shell, {}, async (complete, asked) => {
        const [command, all, flags, alias, others, hidden, topic, member, ofMember, list] = await complete(
          'remote-app inf',
          'remote-app ',
          'remote-app infer --ens',
          'remote-app eval --mas',
          'remote-app health --ens',
          'remote-app completion --val',
          'remote-app tok',
          'remote-app token ro',
          'remote-app token create --exp',
          'remote-app serve --auth b',
        );
        expect(command).toMatch(/\binfer\b/);
        for (const name of ['apps', 'completion', 'fine-tune', 'infer', 'serve']) expect(all).toContain(name);
        expect(all).not.toMatch(/\beval\b/);
        expect(flags).toContain('--ensemble');
        expect(flags).toContain('--ensemble-models');
        expect(alias).toContain('--mask');
        expect(others).not.toContain('--ensemble');
        expect(hidden).not.toContain('--values');
        expect(topic).toMatch(/\btoken\b/);
        expect(member).toMatch(/\brotate\b/);
        expect(ofMember).toContain('--expires');
        expect(list).toMatch(/\bbearer\b/);
        expect(asked()).toEqual([]);
      }));

    test('Asks for the values of each flag and argument with the words typed so far, and shows them', () =>
      withOffers(
        shell,
        {
          apps: ['tissue'],
          jobs: ['aa01bc23de45\trunning infer tissue', 'bb01bc23de45\tdone evaluate lungs'],
          'active-jobs': ['aa01bc23de45\trunning infer tissue'],
          'ended-jobs': ['bb01bc23de45\tdone evaluate lungs'],
          gpus: ['0,2\tNVIDIA L4'],
          states: ['running,killed'],
          profiles: ['laboratory\thttp://127.0.0.1:1'],
          parameters: ['scale=\t1'],
          checkpoints: ['CV_0.pt,CV_1.pt'],
          tags: ['study-7\t2 jobs'],
        },
        async (complete, asked) => {
          const table: [line: string, kind: string, shown: RegExp][] = [
            ['infer --app t', 'apps', /\btissue\b/],
            ['infer -a t', 'apps', /\btissue\b/],
            ['apps t', 'apps', /\btissue\b/],
            ['logs ', 'jobs', /aa01bc23de45.*bb01bc23de45/s],
            ['status --connect-timeout 3 bb', 'jobs', /bb01bc23de45/],
            ['kill ', 'active-jobs', /aa01bc23de45/],
            ['rm bb01bc23de46 ', 'ended-jobs', /bb01bc23de45/],
            ['infer --gpu 0,', 'gpus', /0,2/],
            ['jobs --status running,', 'states', /running,killed/],
            ['health --profile lab', 'profiles', /laboratory/],
            ['infer --app tissue --set sc', 'parameters', /\bscale=/],
            ['infer -a tissue --ensemble-models CV_0.pt,', 'checkpoints', /CV_0.pt,CV_1.pt/],
            ['fine-tune -a tissue --models CV', 'checkpoints', /CV_1.pt/],
            ['jobs --tag stu', 'tags', /study-7/],
            ['wait --tag stu', 'tags', /study-7/],
            ['infer --tag stu', 'tags', /study-7/],
          ];
          const seen = await complete(...table.map(([line]) => `remote-app ${line}`));
          expect(asked()).toEqual(
            table.map(([line, kind]) => ['completion', '--values', kind, '--', ...line.split(' ')]),
          );
          for (const [at, [line, , shown]] of table.entries()) expect(seen[at], line).toMatch(shown);
          expect(seen[3]?.includes('running infer tissue')).toBe(shell !== 'bash');
          // A second job of a command that takes one.
          const [second] = await complete('remote-app status aa01bc23de45 ');
          expect(second).not.toContain('bb01bc23de45');
          expect(asked()).toEqual([]);
        },
      ));

    test('Completes identifiers with slashes and colons', () =>
      withOffers(
        shell,
        { apps: ['VBoussot/ImpactSynth:MR', 'VBoussot/ImpactSynth:CT', 'tissue'] },
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
          expect(asked().map((words) => words.slice(4))).toEqual([
            ['infer', '--app', 'VBoussot/ImpactSynth:M'],
            ['infer', '--app=VBoussot/ImpactSynth:M'],
          ]);
        },
      ));

    test('Completes files and directories only for arguments that take them', () =>
      withOffers(shell, {}, async (complete) => {
        const [files, token, directories, job, ofApp, scan] = await complete(
          'remote-app infer scan',
          'remote-app infer --token-file ord',
          'remote-app infer --output sc',
          'remote-app jobs ord',
          // A file of the app, which this machine does not have.
          'remote-app infer --prediction-file ord',
          'remote-app convert --like scan',
        );
        expect(files).toMatch(/scan\.nii/);
        expect(files).toMatch(/\bscans\b/);
        expect(token).toContain('ordinary.txt');
        expect(directories).toMatch(/\bscans\b/);
        expect(directories).not.toContain('scan.nii');
        expect(scan).toMatch(/scan\.nii/);
        expect(job).not.toContain('ordinary.txt');
        expect(ofApp).not.toContain('ordinary.txt');
      }));

    test('Runs no command that is put into a list', () =>
      withOffers(
        shell,
        { apps: ['$(touch planted)', '`touch planted`', 'x;touch planted', "'$(touch planted)'"] },
        async (complete, _, cli) => {
          const [seen] = await complete('remote-app infer --app ', 'remote-app infer --app x');
          expect(seen).toMatch(/touch\\? planted/);
          // zsh and fish themselves quote what they insert.
          if (shell === 'bash') expect(seen).toContain('\\$\\(touch\\ planted\\)');
          expect(existsSync(path.join(cli.directory, 'planted'))).toBe(false);
        },
      ));

    test('Shows nothing of a program that offers nothing, and complains', () =>
      withOffers(shell, {}, async (complete, asked) => {
        const [seen = ''] = await complete('remote-app infer --app t');
        expect(seen.replace(/^.*<</s, '')).not.toMatch(/tissue|No such file/);
        expect(asked()).toHaveLength(1);
      }));

    test('Shows what the program itself offers: of the server that the command line names, with its token', async () => {
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
  apps: ['lungs', 'tissue'],
  override: ({ url }, response) => {
    const answer = { '/jobs': { jobs }, '/repo_apps/tissue': described }[url];
    if (answer) json(response, 200, answer);
    return answer !== undefined;
  },
};

/** What the program offers behind these words, the last of which is being typed. */
async function offered(
  cli: Cli,
  source: string,
  words: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<string[]> {
  const { code, stdout, stderr } = await cli.run(['completion', '--values', source, '--', ...words], env);
  expect([code, stderr]).toEqual([0, '']);
  return stdout.split('\n').slice(0, -1);
}

describe('completion --values', () => {
  const [running, done] = ['aa01bc23de45\trunning infer tissue', 'bb01bc23de45\tdone evaluate lungs'];

  test.each<[source: string, line: string, offers: readonly string[]]>([
    ['apps', 'infer --app t', ['lungs', 'tissue']],
    ['jobs', 'logs ', [running, done]],
    ['jobs', 'status --connect-timeout 3 bb', [running, done]],
    ['active-jobs', 'kill ', [running]],
    ['active-jobs', 'kill aa01bc23de45 ', []],
    ['ended-jobs', 'rm ', [done]],
    ['gpus', 'infer --gpu 0,', ['0,2\tNVIDIA L4']],
    ['gpus', 'infer --gpu=', ['0\tNVIDIA H200', '2\tNVIDIA L4']],
    ['tags', 'infer --tag stu', ['study-7\t2 jobs']],
    ['parameters', 'infer --app tissue --set sc', ['scale=\t1', 'mode=\tfast']],
    ['parameters', 'infer -a tissue --set ', ['scale=\t1', 'mode=\tfast']],
    // Of which app is not known.
    ['parameters', 'infer --set sc', []],
    ['checkpoints', 'infer -a tissue --ensemble-models CV_0.pt,', ['CV_0.pt,CV_1.pt']],
    ['checkpoints', 'fine-tune -a tissue --models CV', ['CV_0.pt', 'CV_1.pt']],
  ])('%s for %j', async (source, line, offers) => {
    await using cli = await Cli.create();
    await using server = await fakeService(fake);
    expect(await offered(cli, source, line.split(' '), { REMOTE_APP_SERVER: server.url })).toEqual(offers);
  });

  test('completion --values states follow those in front of the last comma', async () => {
    await using cli = await Cli.create();
    const states = await offered(cli, 'states', ['jobs', '--status', 'running,'], {});
    expect(states).toContain('running,killed');
    expect(states).not.toContain('running,running');
    expect(await offered(cli, 'states', ['jobs', '--status', 'wai'], {})).toContain('waiting');
  });

  test('completion --values are those of the server that the command line names, with its token or its profile', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService(fake);
    await using other = await fakeService({ apps: ['elsewhere'], token: 'secret' });
    await plant(cli.directory, { token: 'secret' });
    const env = { REMOTE_APP_SERVER: server.url };
    const named = ['infer', '--server', other.url, '--token-file', './token', '--app', 'el'];
    expect(await offered(cli, 'apps', named, env)).toEqual(['elsewhere']);
    await cli.run(['login', '--server', other.url, '--profile', 'lab'], {}, 'secret\n');
    const ofProfile = ['infer', '--profile=lab', '--app', 'el'];
    expect(await offered(cli, 'apps', ofProfile, env)).toEqual(['elsewhere']);
    expect(server.received).toEqual([]);
    expect(await offered(cli, 'profiles', ['health', '--profile', ''], {})).toEqual([`lab\t${other.url}`]);
  });

  test('completion --values leave out what no shell can show', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({ apps: ['\u001b[2Jx', 'a\nb', '$(touch planted)'] });
    expect(await offered(cli, 'apps', ['infer', '--app', ''], { REMOTE_APP_SERVER: server.url })).toEqual([
      '$(touch planted)',
    ]);
  });

  test('completion --values waits a second for a server, and then gives up without a message', async () => {
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
    ['no server that answers', { REMOTE_APP_SERVER: 'http://127.0.0.1:1' }, []],
    ['an address that is none', { REMOTE_APP_SERVER: '::' }, []],
    ['a token file that is missing', {}, ['--token-file', 'none']],
    ['a flag that is not finished', { REMOTE_APP_SERVER: 'SERVER' }, ['--server']],
  ])('completion --values is silent with %s', async (_, env: NodeJS.ProcessEnv, words) => {
    await using cli = await Cli.create();
    await using server = await fakeService({ token: 'right' });
    const environment = env.REMOTE_APP_SERVER === 'SERVER' ? { ...env, REMOTE_APP_SERVER: server.url } : env;
    const args = ['completion', '--values', 'jobs', '--', 'logs', ...words, ''];
    const { code, stdout, stderr } = await cli.run(args, environment);
    expect([code, stdout, stderr]).toEqual([0, '', '']);
  });

  test('completion --values without a shell is a wrong command line', async () => {
    await using cli = await Cli.create();
    const { code, stderr } = await cli.run(['completion']);
    expect([code, stderr]).toEqual([2, 'Error: Name a shell: bash, zsh, fish\n']);
  });
});
