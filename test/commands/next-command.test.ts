import { expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService } from '../support/fake-service.js';

const unknown = 'ffffffffffff';

/** The message of a command about a job that is not on the server. */
async function asked(cli: Cli, flags: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const { stderr } = await cli.run(['status', unknown, ...flags], env);
  return stderr;
}

test('A command that a message suggests has the flags by which this command reached its server', async () => {
  await using cli = await Cli.create();
  await using server = await fakeService({
    override: ({ url }, response) => {
      if (url !== `/jobs/${unknown}`) return false;
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"Unknown job_id"}');
      return true;
    },
  });
  const { url } = server;
  const lists = (flags: string) =>
    `Error: No job '${unknown}' on ${url}; 'remote-app jobs${flags}' lists them\n`;
  expect(await asked(cli, ['--server', url])).toBe(lists(` --server ${url}`));
  expect(await asked(cli, [], { REMOTE_APP_SERVER: url })).toBe(lists(''));
  expect((await cli.run(['login', '--server', url, '--profile', 'my lab', '--token', 'secret'])).code).toBe(
    0,
  );
  expect(await asked(cli, ['--profile', 'my lab'])).toBe(lists(" --profile 'my lab'"));
  // A token would remain on the screen.
  expect(await asked(cli, ['--server', url, '--token', 'secret'])).toBe(lists(` --server ${url}`));
});

test('If the server has no such path, the message asks whether the address is right', async () => {
  await using cli = await Cli.create();
  await using server = await fakeService({
    override: ({ url, method }, response) => {
      const detail = `There is no ${method} ${url}`;
      response.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify({ detail }));
      return true;
    },
  });
  expect(await asked(cli, ['--server', `${server.url}/api`])).toBe(
    `Error: ${server.url}/api has no /jobs/${unknown}: is that the address of the service?\n`,
  );
});

test('The advice about a configuration that does not fit also has these flags', async () => {
  await using cli = await Cli.create();
  await using server = await fakeService({
    override: ({ url }, response) => {
      if (!url.startsWith('/repo_apps_config/')) return false;
      // More than any disk has.
      response
        .writeHead(200, { 'content-type': 'application/zip', 'content-length': 2 ** 52 })
        .flushHeaders();
      return true;
    },
  });
  const flags = ['--server', server.url];
  const config = await cli.run(['apps', 'tissue', '--config', 'files', ...flags]);
  expect(config.code, config.stderr).toBe(1);
  expect(config.stderr).toContain(
    `free some space, then run 'remote-app apps tissue --config DIR --server ${server.url}'`,
  );
});
