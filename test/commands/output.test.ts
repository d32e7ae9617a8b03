import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService, jobId } from '../support/fake-service.js';
import { apps } from '../support/server.js';
import { plant } from '../support/temporary.js';
import { zipOf } from '../support/zip.mjs';

const result = zipOf({ 'mask.nii': 'mask' });

describe('--output', () => {
  test.each([
    ['infer', ['scans']],
    ['evaluate', ['scans', '--gt', 'scans']],
    ['uncertainty', ['scans']],
    ['pipeline', ['scans', '--gt', 'scans']],
    ['fine-tune', ['scans']],
    ['result', [jobId]],
  ])(
    'An output directory that cannot be written is refused by %s before the server is asked',
    async (command, args) => {
      await using cli = await Cli.create();
      await plant(cli.directory, { 'scans/ct.nii': 'volume', file: '' });
      await using server = await fakeService({ result });
      for (const output of process.platform === 'linux' ? ['file', '/proc/x/y'] : ['file']) {
        const { code, stdout, stderr } = await cli.run([
          command,
          ...args,
          '--output',
          output,
          '--server',
          server.url,
        ]);
        expect([code, stdout]).toEqual([2, '']);
        const full = path.resolve(cli.directory, output);
        expect(stderr).toMatch(/^Error: Results cannot be saved in '[^\n]*; choose another directory.*\n$/);
        expect(stderr).toContain(`'${full}'`);
      }
      expect(server.received).toEqual([]);
    },
  );

  test.skipIf(process.platform !== 'linux')(
    'The default output directory must be writable as well',
    async () => {
      await using cli = await Cli.create();
      await using server = await fakeService({ result });
      const { code, stderr } = await cli.from('/proc').run(['result', jobId, '--server', server.url]);
      expect([code, stderr]).toEqual([
        2,
        expect.stringMatching(
          /^Error: Results cannot be saved in '\/proc\/Output': it cannot be made in '\/proc'/,
        ),
      ]);
      expect(server.received).toEqual([]);
    },
  );

  test('An empty --output, as from an unset variable, is refused', async () => {
    await using cli = await Cli.create();
    await plant(cli.directory, { 'scans/ct.nii': 'volume' });
    await using server = await fakeService({ result });
    for (const words of [
      ['result', jobId],
      ['infer', 'scans'],
      ['infer', '--each', 'scans'],
    ]) {
      const { code, stderr } = await cli.run([...words, '--output=', '--server', server.url]);
      expect([code, stderr]).toEqual([2, 'Error: --output is empty; name a directory\n']);
    }
    expect(server.received).toEqual([]);
  });

  test('--output is not used for a detached job', async () => {
    await using cli = await Cli.create();
    await plant(cli.directory, { 'scans/ct.nii': 'volume', Output: 'a file' });
    await using server = await fakeService({});
    const { code, stdout } = await cli.run(['infer', 'scans', '--detach', '--server', server.url]);
    expect([code, stdout]).toEqual([0, `${jobId}\n`]);
  });
});

test.skipIf(process.platform !== 'linux')(
  'A directory in a file system of the kernel does not block a command',
  async () => {
    await using cli = await Cli.create();
    const refused = await cli.refusedStart(['serve', '--data-dir', '/proc/x/y', '--apps', apps.probe]);
    expect(refused).toContain('/proc/x/y');
    await using server = await fakeService({});
    const env = { XDG_CONFIG_HOME: '/proc/x/y' };
    const login = await cli.run(['login', '--server', server.url], env);
    expect([login.code, login.stderr]).toEqual([1, expect.stringContaining('/proc/x/y')]);
  },
);
