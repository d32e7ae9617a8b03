import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { least, options, steps } from '../../support/form.js';
import { argumentsOf, isRunning, runningProcesses } from '../../support/processes.mjs';
import { sandbox } from '../../support/sandbox.js';
import { apps, TestServer } from '../../support/server.js';
import { temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';
import { unzip } from '../../support/unzip.mjs';

describe.runIf(sandbox)('a job in its sandbox', () => {
  const secret = 'the-secret-of-another';
  const files = temporary();
  let home = '';
  let server: TestServer;

  beforeAll(async () => {
    home = (await files).path;
    for (const name of ['models', 'cache', 'private']) {
      mkdirSync(path.join(home, name));
      writeFileSync(path.join(home, name, 'file'), `${name}\n`);
    }
    writeFileSync(path.join(home, 'private', 'token'), `${secret}\n`, { mode: 0o600 });
    cpSync(apps.shell, path.join(home, 'online'), { recursive: true });
    server = await TestServer.start({
      runners: true,
      token: secret,
      apps: [apps.probe, apps.shell, path.join(home, 'online')],
      environment: {
        LAB_SECRET: secret,
        NAMED: 'named',
        HF_HOME: '/srv/models',
        https_proxy: 'http://proxy',
      },
      flags: [
        ...['--sandbox', 'bwrap', '--network', 'online', '--pass-env', 'NAMED'],
        ...['--token-file', path.join(home, 'private', 'token')],
        ...['--bind', path.join(home, 'models'), '--bind-rw', path.join(home, 'cache')],
      ],
    });
  });
  afterAll(async () => {
    await server[Symbol.asyncDispose]();
    await (await files)[Symbol.asyncDispose]();
  });

  /** What a shell command prints in the sandbox of a job: its lines without the service's own. */
  async function lines(command: string, app = 'shell'): Promise<string[]> {
    const form = { ...least.infer, ...steps(`shell=exec 2>&1; ${command}; true`) };
    const { log, view } = await server.api.run('infer', form, { app });
    expect(view).toMatchObject({ status: 'done' });
    const texts = [...log.matchAll(/^data: (.*)$/gm)].map(([, text = '']) => text);
    return texts.filter((text) => !/^(\[remote-app\]|shell infer|__DONE__)/.test(text));
  }

  test('A job in its sandbox cannot change kernel settings, even if the server is root', async () => {
    const places = '! -path "/proc/[0-9]*" ! -path "/proc/self/*" ! -path "/proc/thread-self/*"';
    expect(await lines(`find /proc -type f ${places} -writable 2> /dev/null`)).toEqual([]);
    expect(await lines('cat /proc/sys/kernel/ostype')).toEqual(['Linux']);
  });

  test('A job in its sandbox is mentioned in the log, and its result is the same as without one', async () => {
    const { id, log } = await server.api.run('infer', { ...least.infer, ...steps('write=a/b.txt:text') });
    expect(log).toContain('data: [remote-app] Starting infer on the CPU, in a sandbox without network\n');
    const result = await server.api.fetch(`/jobs/${id}/result`);
    const found = unzip(Buffer.from(await result.arrayBuffer()));
    expect(String(found.get('a/b.txt'))).toBe('text');
  });

  test('A job in its sandbox sees only its own Input, Output and Workspace of the data directory', async () => {
    const other = await server.api.run('infer', { ...least.infer, ...steps(`write=patient:${secret}`) });
    const job = server.jobDirectory(other.id);
    const seen = await lines(
      `ls ${job}; cat ${job}/Output/patient ${job}/log ${job}/job.json; ls ${server.dataDirectory}/jobs | wc -l; ls ..`,
    );
    expect(seen.filter((line) => line.includes('No such file'))).toHaveLength(4);
    expect(seen.slice(-4)).toEqual(['1', 'Input', 'Output', 'Workspace']);
    expect(seen.join('\n')).not.toContain(secret);
  });

  test('A job in its sandbox can neither write nor replace what the runner and the server write', async () => {
    const form = steps(
      'shell=for each in exit.json runner.json job.json log run.json; do echo forged > ../$each || true; done',
      'shell=mv ../Output ../Other || rmdir ../Workspace || ln -s /etc ../exit.json || true',
      'print=[remote-app] Result: 99 files',
    );
    const { id, log, view } = await server.api.run('infer', { ...least.infer, ...form });
    expect(view.status).toBe('done');
    expect(log).toContain('data:  [remote-app] Result: 99 files\n');
    expect(log).toMatch(/^data: \[remote-app\] Result: 1 file,/m);
    expect(readFileSync(path.join(server.jobDirectory(id), 'exit.json'), 'utf8')).not.toContain('forged');
  });

  test('A job in its sandbox sees the system as read-only, and a /tmp of its own that is removed with it', async () => {
    const name = `remote-app-sandbox-${process.pid}`;
    const seen = await lines(
      `for each in / /usr /etc /dev /run /var /sys; do touch $each/${name} && echo wrote $each; done; touch /tmp/${name} && ls /var/tmp /tmp`,
    );
    expect(seen.filter((line) => line.startsWith('wrote'))).toEqual([]);
    expect(seen.filter((line) => line === name)).toHaveLength(2);
    expect(readdirSync('/tmp')).not.toContain(name);
  });

  test('A job in its sandbox sees no home directory, and only those other files that the admin has named', async () => {
    const [models, cache, hidden] = ['models', 'cache', 'private'].map((name) => path.join(home, name));
    const seen = await lines(
      `ls -d /root/* /home/*; cat ${models}/file ${cache}/file ${hidden}/file; echo new > ${cache}/new; echo new > ${models}/new`,
    );
    expect(seen).toEqual([
      expect.stringMatching(/\/root.*No such file/),
      expect.stringMatching(/\/home.*No such file/),
      'models',
      'cache',
      expect.stringMatching(/private\/file.*No such file/),
      expect.stringMatching(/models\/new.*Read-only/),
    ]);
    expect(readFileSync(`${cache}/new`, 'utf8')).toBe('new\n');
  });

  test('A job in its sandbox reads nothing in /etc that is not world-readable', async () => {
    const seen = await lines(
      'cat /etc/shadow || echo hidden; grep -c ^root: /etc/passwd; ls /etc/ssl/private || true',
    );
    expect(seen.slice(0, 3)).toEqual([expect.stringContaining('Permission denied'), 'hidden', '1']);
  });

  test("A job in its sandbox sees a bound path below /var/tmp, even if the server's data directory is beside it", async () => {
    await using place = await temporary('/var/tmp');
    const model = path.join(place.path, 'model');
    writeFileSync(model, 'voxels\n');
    const flags = ['--sandbox', 'bwrap', '--bind', model];
    await using other = await TestServer.start({
      runners: true,
      apps: [apps.shell],
      app: 'shell',
      flags,
      dataDirectory: path.join(place.path, 'data'),
    });
    const { log, view } = await other.api.run('infer', { ...least.infer, ...steps(`shell=cat ${model}`) });
    expect(view, log).toMatchObject({ status: 'done' });
    expect(log).toContain('data: voxels\n');
  });

  test('A job in its sandbox cannot write into its app', async () => {
    const [line = ''] = await lines(`echo changed > ${apps.shell}/app.json`);
    expect(line).toMatch(/Read-only/);
  });

  test('A job in its sandbox gets the variables of the table, those that the admin named, and a home of its own', async () => {
    const { id } = await server.api.run('infer', least.infer);
    const { env } = await server.api.recorded(id);
    expect(env).toMatchObject({ HF_HOME: '/srv/models', NAMED: 'named', REMOTE_APP_JOB_ID: id });
    expect(env.HOME).toBe(env.TMPDIR);
    expect(JSON.stringify(env)).not.toMatch(/LAB_SECRET|proxy/);
  });

  test('A job in its sandbox sees only its own processes', async () => {
    const [count, ids = ''] = await lines(
      `ls -d /proc/[0-9]* | wc -l; echo $(ls /proc | grep '^[0-9]' | sort -n)`,
    );
    expect(Number(count)).toBeLessThan(12);
    expect(ids).toMatch(/^1 2 /);
    expect(await lines(`kill -9 ${process.pid} || echo none`)).toContain('none');
  });

  test('A job in its sandbox reaches no service of this machine, unless its app may use the network', async () => {
    const listener = createServer((socket) => socket.end('reached'));
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
    const { port } = listener.address() as { port: number };
    const command = `bash -c 'cat < /dev/tcp/127.0.0.1/${port}' 2>&1 | head -1`;
    try {
      expect((await lines(command))[0]).toMatch(/refused/i);
      expect(await lines(command, 'online')).toEqual(['reached']);
    } finally {
      listener.close();
    }
  });

  test('A job in its sandbox leaves no process behind, whatever it does to hide one', async () => {
    const marker = `7${process.pid}77`;
    const hide = `env -i setsid sh -c 'setsid sleep ${marker} >/dev/null 2>&1 </dev/null &' >/dev/null 2>&1 </dev/null & sleep 0.3`;
    await lines(hide);
    expect(runningProcesses().filter((pid) => argumentsOf(pid).includes(marker))).toEqual([]);
  });

  test('A job in its sandbox is asked to end, and killed three seconds later', async () => {
    const form = steps('stubborn=', 'print=ready', 'wait=/never');
    const id = await server.api.running('infer', { ...least.infer, ...form }, 'ready');
    const pids = server.processes();
    await server.api.fetch(`/jobs/${id}/kill`, { method: 'POST' });
    expect(await server.api.log(id)).toContain('data: not yet\n');
    expect(pids.filter(isRunning)).toEqual([]);
  });

  test('A job in its sandbox finds the engine and its environment without further configuration', async () => {
    const environment = path.join(home, 'lab', 'environment');
    mkdirSync(path.join(environment, 'bin'), { recursive: true });
    writeFileSync(path.join(environment, 'pyvenv.cfg'), 'home = /usr/bin\n');
    writeFileSync(path.join(environment, 'library'), 'greeting="from the environment"\n');
    // Any interpreter would do.
    symlinkSync('/bin/sh', path.join(environment, 'bin', 'python'));
    const engine = path.join(environment, 'bin', 'engine');
    const program = `. ${environment}/library\necho $greeting\nls -d ${home}/private || echo not seen\n`;
    writeFileSync(engine, `#!${environment}/bin/python\n${program}`, { mode: 0o755 });
    const app = path.join(home, 'plain');
    mkdirSync(app);
    const { command: _, ...manifest } = JSON.parse(readFileSync(path.join(apps.shell, 'app.json'), 'utf8'));
    writeFileSync(path.join(app, 'app.json'), JSON.stringify(manifest));
    await using other = await TestServer.start({
      runners: true,
      apps: [app],
      app: 'plain',
      environment: { PATH: `${path.dirname(engine)}:${process.env.PATH}` },
      flags: ['--sandbox', 'bwrap', '--engine', 'engine'],
    });
    const { log } = await other.api.run('infer', least.infer);
    expect(log).toContain('data: from the environment\n');
    expect(log).toContain('data: not seen\n');
  });

  test("A job in its sandbox finds the packages of its app's workspace, and nothing else there", async () => {
    const packages = path.join(home, 'workspace', 'node_modules', 'greeting');
    const app = path.join(home, 'workspace', 'apps', 'member');
    mkdirSync(packages, { recursive: true });
    cpSync(apps.shell, app, { recursive: true });
    writeFileSync(path.join(packages, 'index.js'), 'module.exports = "from the workspace";\n');
    writeFileSync(path.join(home, 'workspace', 'notes'), 'notes');
    const program = `import greeting from 'greeting'; import { existsSync } from 'node:fs'; console.log(greeting, existsSync('${home}/workspace/notes'));\n`;
    writeFileSync(path.join(app, 'main.mjs'), program);
    const manifest = JSON.parse(readFileSync(path.join(app, 'app.json'), 'utf8'));
    writeFileSync(path.join(app, 'app.json'), JSON.stringify({ ...manifest, command: ['node', 'main.mjs'] }));
    await using other = await TestServer.start({
      runners: true,
      apps: [app],
      app: 'member',
      flags: ['--sandbox', 'bwrap'],
    });
    const { log } = await other.api.run('infer', least.infer);
    expect(log).toContain('data: from the workspace false\n');
  });

  test('A job in its sandbox finds a linked package above its app, but none through a link of the app itself', async () => {
    const workspace = path.join(home, 'linked');
    const app = path.join(workspace, 'apps', 'member');
    const write = (name: string, content: string) => {
      mkdirSync(path.dirname(path.join(workspace, name)), { recursive: true });
      writeFileSync(path.join(workspace, name), content);
    };
    cpSync(apps.shell, app, { recursive: true });
    for (const name of ['sibling', 'private']) {
      const files = ['lib'];
      write(`packages/${name}/package.json`, JSON.stringify({ name, files, main: './lib/index.js' }));
      write(`packages/${name}/lib/index.js`, `module.exports = "of ${name}";\n`);
    }
    write('packages/sibling/notes', 'notes');
    mkdirSync(path.join(workspace, 'node_modules'));
    symlinkSync('../packages/sibling', path.join(workspace, 'node_modules', 'sibling'));
    mkdirSync(path.join(app, 'node_modules'));
    symlinkSync('../../../packages/private', path.join(app, 'node_modules', 'private'));
    const dependencies = { sibling: '1', private: '1', '../../packages/private': '1' };
    write('apps/member/package.json', JSON.stringify({ name: 'member', dependencies }));
    const program = `import sibling from 'sibling'; import { existsSync } from 'node:fs';
const seen = ['packages/sibling/notes', 'packages/private/package.json'].map((name) => existsSync('${workspace}/' + name));
console.log(sibling, ...seen);\n`;
    write('apps/member/main.mjs', program);
    const manifest = JSON.parse(readFileSync(path.join(app, 'app.json'), 'utf8'));
    write('apps/member/app.json', JSON.stringify({ ...manifest, command: ['node', 'main.mjs'] }));
    await using other = await TestServer.start({
      runners: true,
      apps: [app],
      app: 'member',
      flags: ['--sandbox', 'bwrap'],
    });
    const { log } = await other.api.run('infer', least.infer);
    expect(log).toContain('data: of sibling false false\n');
  });

  test('A job in its sandbox gets more values than bwrap takes words', async () => {
    const size = Array.from({ length: 9000 }, (_, index) => index + 1);
    const form = { ...least.infer, ...options({ patch_size: size }) };
    const { id, view } = await server.api.run('infer', form);
    expect(view).toMatchObject({ status: 'done', error: null });
    const { argv } = await server.api.recorded(id);
    expect(argv.slice(argv.indexOf('--patch_size') + 1).slice(0, 9000)).toEqual(size.map(String));
  });

  test('A job in its sandbox that cannot start says what is missing', async () => {
    const app = path.join(home, 'nowhere');
    cpSync(apps.shell, app, { recursive: true });
    const manifest = JSON.parse(readFileSync(path.join(app, 'app.json'), 'utf8'));
    writeFileSync(path.join(app, 'app.json'), JSON.stringify({ ...manifest, command: ['no-such-program'] }));
    await using other = await TestServer.start({
      runners: true,
      apps: [app],
      app: 'nowhere',
      flags: ['--sandbox', 'bwrap'],
    });
    const { view } = await other.api.run('infer', least.infer);
    expect(view.error).toBe("Cannot start 'no-such-program': there is no such program on the server");
  });

  test('A job in its sandbox continues while the server restarts, and ends normally', async () => {
    const flags = ['--sandbox', 'bwrap', '--on-exit', 'keep'];
    await using other = await TestServer.start({ runners: true, flags });
    const id = await other.api.running('infer', {
      ...least.infer,
      ...steps('shell=while [ ! -e go ]; do sleep 0.05; done; exit 0', 'exit=7'),
    });
    await other.restart();
    writeFileSync(path.join(other.jobDirectory(id), 'Output', 'go'), '');
    const { view } = await other.api.ended(id);
    expect([view.status, view.error]).toEqual(['error', 'Subprocess failed (exit code 7)']);
    await until('no process is left', () => other.processes().length === 0);
  });
});
