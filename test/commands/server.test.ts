import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstat, mkdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService } from '../support/fake-service.js';
import { inNetworkNamespace, lacks } from '../support/needs.mjs';
import { json, ScriptedServer } from '../support/scripted-server.js';

const token = 'a-secret-token';

/** A server whose answer never ends and never has a body; in its own process, so that it is fast. */
const flood = `
  const piece = Buffer.alloc(65536, 'a');
  const server = require('node:net').createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => {
      socket.write('HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n5;');
      const more = () => { while (!socket.destroyed && socket.write(piece)); };
      socket.on('drain', more);
      more();
    });
  });
  server.listen(0, '127.0.0.1', () => console.log(server.address().port));
`;

describe('health', () => {
  test('health exits with 0 if the server answers, 4 without a valid token, and 5 if nothing listens', async () => {
    await using cli = await Cli.create();
    const server = await fakeService({ token });
    const env = { REMOTE_APP_SERVER: server.url };
    const good = await cli.run(['health'], { ...env, SERVICE_API_TOKEN: token });
    expect([good.code, good.stdout]).toEqual([0, `${server.url} is ok\n`]);
    const bad = await cli.run(['health', '--token', 'another-secret'], env);
    expect([bad.code, bad.stderr]).toEqual([
      4,
      `Error: ${server.url} does not accept this token: run 'remote-app login --server ${server.url}' with another one\n`,
    ]);
    const none = await cli.run(['health'], env);
    expect([none.code, none.stderr]).toEqual([
      4,
      `Error: ${server.url} needs a token: run 'remote-app login --server ${server.url}'\n`,
    ]);
    await server[Symbol.asyncDispose]();
    const gone = await cli.run(['health', '--json'], env);
    expect(gone.code).toBe(5);
    expect(JSON.parse(gone.stdout)).toMatchObject({ error: { exit_code: 5, fault: 'unreached' } });
    expect(gone.stdout).not.toContain('no server was named');
    expect(good.stderr + bad.stderr + gone.stderr).not.toContain('secret');
  });

  test.skipIf(lacks('the right to make network namespaces'))(
    'health says that no server was named if the default address does not answer',
    async () => {
      await using cli = await Cli.create();
      // Another program may listen on the default port of this machine.
      const { code, stderr } = await cli.runProcess(['health'], {}, '', inNetworkNamespace);
      expect(code, stderr).toBe(5);
      expect(stderr).toContain(
        "no server was named: give --server or REMOTE_APP_SERVER, or run 'remote-app login",
      );
    },
  );

  test('health exits with 6 and says why if jobs have to wait', async () => {
    await using cli = await Cli.create();
    const answer = { status: 'ok', faults: ['GPU 1 is lost'] };
    await using server = await ScriptedServer.start((_, response) => json(response, 200, answer));
    const { code, stdout } = await cli.run(['health', '--server', server.url]);
    expect([code, stdout]).toEqual([6, `${server.url} is ok\nGPU 1 is lost\n`]);
  });

  test('health exits with 3 if the server is silent', async () => {
    await using cli = await Cli.create();
    await using server = await ScriptedServer.start(() => {});
    expect((await cli.run(['health', '--timeout', '0.2', '--server', server.url])).code).toBe(3);
  });

  test('health exits with 3 if the server sends interim answers without end', async () => {
    await using cli = await Cli.create();
    const server = spawn(process.execPath, ['-e', flood], { stdio: ['ignore', 'pipe', 'inherit'] });
    try {
      const [port] = await once(server.stdout, 'data');
      const url = `http://127.0.0.1:${Number(port)}`;
      expect((await cli.run(['health', '--timeout', '1', '--server', url])).code).toBe(3);
    } finally {
      server.kill('SIGKILL');
    }
  }, 120_000);
});

describe('gpus and apps', () => {
  test('gpus shows each GPU with its memory, and the RAM', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({});
    const { stdout } = await cli.run(['gpus', '--server', server.url]);
    expect(stdout).toMatch(
      /^ID +GPU +MEMORY\n0 +NVIDIA H200 +1\.5 of 64\.0 GB\n2 +NVIDIA L4 .*\nRAM: 1\.5 of 64\.0 GB\n$/,
    );
    const machine = JSON.parse((await cli.run(['gpus', '--json', '--server', server.url])).stdout);
    expect(machine.gpus.map((gpu: { id: number }) => gpu.id)).toEqual([0, 2]);
  });

  test('apps prints one app per line', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({ apps: ['a', 'b/c:D'] });
    expect((await cli.run(['apps', '--server', server.url])).stdout).toBe('a\nb/c:D\n');
  });
});

describe('login', () => {
  test('login checks the token, then saves it in a file that only its owner can read', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({ token });
    const login = await cli.run(['login', '--server', server.url], {}, `${token}\n`);
    expect([login.code, login.stderr]).toEqual([0, '']);
    const file = path.join(cli.home, 'remote-app', 'profiles.json');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await readFile(file, 'utf8')).toContain(token);
    expect(login.stdout).not.toContain(token);
    expect((await cli.run(['health'])).code).toBe(0);
  });

  test('logout undoes login and keeps the address', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({ token });
    await cli.run(['login', '--server', server.url], {}, `${token}\n`);
    const logout = await cli.run(['logout'], { SERVICE_API_TOKEN: 'other' });
    expect([logout.code, logout.stdout, logout.stderr]).toEqual([
      0,
      `Logged out of ${server.url}; the profile 'default' keeps its address\n`,
      'SERVICE_API_TOKEN is set: commands go on sending the token in it\n',
    ]);
    expect(await readFile(path.join(cli.home, 'remote-app', 'profiles.json'), 'utf8')).not.toContain(token);
    const health = await cli.run(['health']);
    expect([health.code, health.stderr]).toEqual([4, expect.stringContaining(`${server.url} needs a token`)]);
    const again = await cli.run(['logout', '--json']);
    expect(JSON.parse(again.stdout)).toEqual({ profile: 'default', server: server.url, removed: false });
    const unknown = await cli.run(['logout', '--profile', 'lab']);
    expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining("No profile 'lab'")]);
  });

  test('login says how to give a token if the server needs one and stdin has none', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({ token });
    for (const stdin of ['', '\n']) {
      const login = await cli.run(['login', '--server', server.url], {}, stdin);
      expect([login.code, login.stderr]).toEqual([
        4,
        'Error: No token on stdin: pipe it in, or give --token-file\n',
      ]);
    }
    await using open = await fakeService({});
    expect((await cli.run(['login', '--server', open.url])).code).toBe(0);
    // A proxy in front of the server asks for its own password.
    await using proxy = await fakeService({
      override: (_, response) => {
        response.writeHead(401, { 'content-type': 'text/html' }).end('<h1>Sign in</h1>');
        return true;
      },
    });
    const { code, stderr } = await cli.run(['login', '--server', proxy.url], {}, '\n');
    expect([code, stderr]).toEqual([4, expect.not.stringContaining('token on stdin')]);
  });

  test('login warns only if others can read the token', async () => {
    await using cli = await Cli.create();
    const said = async (server: string, stdin = `${token}\n`) =>
      (await cli.run(['login', '--server', server, '--connect-timeout', '0.2'], {}, stdin)).stderr;
    const warning =
      /^Warning: http:\/\/192\.0\.2\.1:9 is plain HTTP: the token and the volumes travel unencrypted\.$/m;
    expect(await said('http://192.0.2.1:9')).toMatch(warning);
    // Without a token there is nothing to read.
    expect(await said('http://192.0.2.1:9', '\n')).not.toContain('Warning');
    for (const server of ['https://192.0.2.1:9', 'http://[::1]:9', 'http://localhost:9'])
      expect(await said(server)).not.toContain('Warning');
  });

  test('login refuses an app that the server does not have', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({ apps: ['brain', 'b/c:D'] });
    const login = ['login', '--server', server.url];
    const typed = await cli.run([...login, '--app', 'brian'], {}, '\n');
    expect([typed.code, typed.stderr]).toEqual([2, "Error: Unknown app 'brian'; did you mean 'brain'?\n"]);
    const named = await cli.run(login, { REMOTE_APP_APP: 'nosuch' }, '\n');
    expect([named.code, named.stderr]).toEqual([
      2,
      "Error: Unknown app 'nosuch', which REMOTE_APP_APP names; the server has: brain, b/c:D\n",
    ]);
    await expect(stat(path.join(cli.home, 'remote-app', 'profiles.json'))).rejects.toThrow();
    expect((await cli.run([...login, '--app', 'b/c:D'], {}, '\n')).code).toBe(0);
  });

  test('A profile is named if the server no longer has its app', async () => {
    await using cli = await Cli.create();
    await writeFile(path.join(cli.directory, 'a.nii'), 'x');
    let apps = ['brain', 'other'];
    await using server = await fakeService({
      override: ({ url }, response) => {
        if (url !== '/repo_apps_list') return false;
        json(response, 200, { apps });
        return true;
      },
    });
    const profile = ['--profile', 'lab'];
    await cli.run(['login', '--server', server.url, '--app', 'other', ...profile], {}, '\n');
    apps = ['brain'];
    const gone = "Error: Unknown app 'other', which the profile 'lab' names; the server has: brain\n";
    for (const more of [[], ['--each', '-o', 'Out']]) {
      const { code, stderr } = await cli.run(['infer', 'a.nii', ...profile, ...more]);
      expect([code, stderr]).toEqual([2, gone]);
    }
    const typed = await cli.run(['infer', 'a.nii', '--app', 'other', ...profile]);
    expect(typed.stderr).toBe("Error: Unknown app 'other'; the server has: brain\n");
  });

  test('login with a wrong token saves nothing', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({ token });
    const tokenFile = path.join(cli.directory, 'token');
    await writeFile(tokenFile, 'wrong');
    const login = await cli.run(['login', '--server', server.url, '--token-file', tokenFile, '--json']);
    expect(login.code).toBe(4);
    expect(JSON.parse(login.stdout).error.message).toContain('does not accept this token');
    await expect(stat(path.join(cli.home, 'remote-app', 'profiles.json'))).rejects.toThrow();
  });

  test('The error for an invalid token says where the token came from', async () => {
    await using cli = await Cli.create();
    const typed = await cli.run(['login', '--server', 'http://127.0.0.1:1', '--token', 'a b']);
    expect([typed.code, typed.stderr]).toEqual([2, expect.stringContaining('The token of --token contains')]);
    const environment = { SERVICE_API_TOKEN: 'a b' };
    const given = await cli.run(['login', '--server', 'http://127.0.0.1:1'], environment);
    expect([given.code, given.stderr]).toEqual([2, expect.stringContaining('of SERVICE_API_TOKEN contains')]);
  });

  test('login keeps a profile for each of several servers', async () => {
    await using cli = await Cli.create();
    await using one = await fakeService({ apps: ['one'] });
    await using two = await fakeService({ apps: ['two'] });
    await cli.run(['login', '--server', one.url, '--profile', 'one']);
    await cli.run(['login', '--server', two.url, '--profile', 'two']);
    expect((await cli.run(['apps', '--profile', 'one'])).stdout).toBe('one\n');
    expect((await cli.run(['apps'], { REMOTE_APP_PROFILE: 'two' })).stdout).toBe('two\n');
    expect((await cli.run(['apps', '--profile', 'three'])).code).toBe(2);
  });

  test('Simultaneous logins keep all profiles, in the target of a link', async () => {
    await using cli = await Cli.create();
    await using server = await fakeService({});
    const file = path.join(cli.home, 'remote-app', 'profiles.json');
    const kept = path.join(cli.directory, 'kept.json');
    await mkdir(path.dirname(file));
    await writeFile(kept, '{"profiles": {}}');
    await symlink(kept, file);
    const names = Array.from({ length: 8 }, (_, index) => `p${index}`);
    const logins = names.map((name) => cli.run(['login', '--server', server.url, '--profile', name]));
    expect((await Promise.all(logins)).map(({ code }) => code)).toEqual(names.map(() => 0));
    expect(Object.keys(JSON.parse(await readFile(kept, 'utf8')).profiles).sort()).toEqual(names);
    expect((await lstat(file)).isSymbolicLink()).toBe(true);
  });

  test('--profile wins over the environment, whose token is sent to no other server', async () => {
    await using cli = await Cli.create();
    await using lab = await fakeService({ apps: ['lab'], token });
    await using other = await fakeService({ apps: ['other'] });
    await cli.run(['login', '--server', lab.url, '--profile', 'lab'], {}, `${token}\n`);
    await cli.run(['login', '--server', other.url, '--profile', 'other'], {}, '\n');
    const env = { REMOTE_APP_SERVER: other.url, SERVICE_API_TOKEN: 'for-another-server' };
    expect((await cli.run(['apps', '--profile', 'lab'], env)).stdout).toBe('lab\n');
    expect((await cli.run(['apps'], { ...env, REMOTE_APP_PROFILE: 'lab' })).stdout).toBe('other\n');
    other.received.length = 0;
    const elsewhere = { ...env, REMOTE_APP_SERVER: lab.url };
    expect((await cli.run(['apps', '--profile', 'other'], elsewhere)).stdout).toBe('other\n');
    expect(other.received.map(({ headers }) => headers.authorization)).toEqual([undefined]);
  });
});
