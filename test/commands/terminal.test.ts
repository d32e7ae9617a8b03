import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { type Fake, fakeService, jobId } from '../support/fake-service.js';
import { ScreenTerminal } from '../support/screen-terminal.js';
import { json } from '../support/scripted-server.js';
import { plant } from '../support/temporary.js';
import { Terminal } from '../support/terminal.js';

const esc = '\u001b';
/** Writes the clipboard, changes the title, clears the screen and forges a line; the last word is harmless. */
const hostile = `a${esc}]52;c;ZXZpbA==\u0007${esc}]0;owned\u0007${esc}[2J\u009b2J\u0085\r\u202eend`;

/** Runs a command at a terminal, to its end. */
async function atTerminal(cli: Cli, args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  await using terminal = new ScreenTerminal(cli, args, { env });
  const code = await terminal.ended();
  return { screen: terminal.written, rows: terminal.rows, code };
}

/** The control sequences of our spinners and bars: colours, and moves of the cursor along one line. */
const ours = new RegExp(`${esc}\\[(?:[\\d;]*m|\\d*[GKABCD]|\\?(?:25|7|2026)[hl])`, 'g');

/** Whether a text has no control sequences but ours and colours. */
function expectTame(screen: string): void {
  const rest = screen
    .replace(ours, '')
    .replaceAll('\r\n', '\n')
    .replaceAll(/[\r\t\n]/g, '');
  expect(rest).not.toMatch(/\p{Cc}|[\u202a-\u202e]/u);
  expect(screen).not.toContain(`${esc}[2J`);
}

async function atTerminalOf(fake: Fake, args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  await using cli = await Cli.create();
  await plant(cli.directory, { 'ct.nii': 'volume' });
  await using server = await fakeService(fake);
  return await atTerminal(cli, [...args, '--server', server.url], env);
}

describe('at a terminal', () => {
  test('A log keeps only colours, which end with their line', async () => {
    const lines = [`${esc}[31mred`, hostile, 'plain'];
    const { screen, code } = await atTerminalOf({ lines }, ['logs', jobId], { CI: '1' });
    expectTame(screen);
    expect(code).toBe(0);
    expect(screen).toBe(`${esc}[31mred${esc}[0m\r\na\\x9b2J\\x85\\x0d\\u202eend\r\nplain\r\n`);
  });

  test('A spinner shows only text without control sequences', async () => {
    const lines = [`[remote-app] Waiting${hostile}`, 'plain'];
    const { screen } = await atTerminalOf({ lines }, ['logs', jobId]);
    expectTame(screen);
    expect(screen).toContain('plain');
  });

  test.each<[string, string[], Fake]>([
    [
      'the reason of a failure',
      ['logs', jobId],
      { marker: `__ERROR__ ${hostile}`, status: 'error', error: hostile },
    ],
    ['the state of a job', ['status', jobId], { error: hostile }],
    ['a list of apps', ['apps'], { apps: [hostile, `b\n${hostile}`] }],
    ['a choice of apps', ['infer', 'ct.nii'], { apps: [hostile, 'b'] }],
  ])('At a terminal, %s has no control sequences', async (_, args, fake) => {
    const { screen } = await atTerminalOf(fake, args);
    expectTame(screen);
    expect(screen).toContain('end');
  });

  test.each([
    ['a detail', ['health'], 500, { detail: hostile }, {}],
    ['a name of a field', ['health'], 422, { detail: [{ loc: [hostile], msg: hostile }] }, {}],
    ['an address', ['health'], 302, {}, { location: 'http://x/\u009b2J' }],
    ['an app of a job', ['jobs'], 200, { jobs: [{ job_id: 'a', status: 'done', app: hostile }] }, {}],
    ['a name of a GPU', ['gpus'], 200, { devices_index: [0], devices_name: [hostile] }, {}],
    [
      'an app',
      ['apps', 'x'],
      200,
      {
        app: hostile,
        display_name: hostile,
        description: hostile,
        inputs: { [hostile]: { volume_type: hostile } },
      },
      {},
    ],
  ])('At a terminal, %s of a server has no control sequences', async (_, args, status, body, headers) => {
    const override: Fake['override'] = ({ url }, response) => {
      if (url.includes('ram')) return false;
      json(response, status, body, headers);
      return true;
    };
    const { screen } = await atTerminalOf({ override }, args);
    expectTame(screen);
  });

  test.each([
    ['in colour', {}, true],
    ['plain with NO_COLOR', { NO_COLOR: '1' }, false],
    ['plain in CI', { CI: '1' }, false],
    ['in colour with FORCE_COLOR', { CI: '1', FORCE_COLOR: '1' }, true],
  ])('States and errors are %s', async (_, env, isColoured) => {
    const status = await atTerminalOf({ status: 'done' }, ['status', jobId], env);
    expect(status.screen.includes(`Status     ${esc}[32mdone${esc}[39m`)).toBe(isColoured);
    const refused = await atTerminalOf({ apps: [] }, ['infer', 'ct.nii'], env);
    expect(refused.screen.includes(`${esc}[31mError:${esc}[39m `)).toBe(isColoured);
    for (const { screen } of [status, refused]) expect(screen.includes(esc)).toBe(isColoured);
  });

  test('In every command, a usage error about flags that exclude or need each other contains no sequences except our colours', async () => {
    await using cli = await Cli.create();
    const { screen, code } = await atTerminal(cli, ['infer', 'x', '--detach', '-o', 'd']);
    const sentence = '--output and --detach exclude each other; give one of them';
    expect([code, screen]).toEqual([
      2,
      `${esc}[31mError:${esc}[39m ${sentence}${esc}[0m\r\n${esc}[2mSee 'remote-app infer --help'.${esc}[22m${esc}[0m\r\n`,
    ]);
    const program = fileURLToPath(new URL('../fixtures/programs/every-refusal.mjs', import.meta.url));
    await using terminal = new Terminal(cli, [], { columns: 2000, program });
    expect(await terminal.ended()).toBe(0);
    const errors = terminal.written.split('\r\n').filter((line) => line.includes('Error:'));
    expect(errors.length).toBeGreaterThan(30);
    for (const line of errors) {
      const plain = line.replaceAll(new RegExp(`${esc}\\[[\\d;]*m`, 'g'), '');
      expect(plain).toMatch(
        /^Error: (--[\w-]+ (and --[\w-]+ exclude each other; give one of them|needs --[\w-]+( and --[\w-]+)*)(; --[\w-]+ needs --[\w-]+)?|Missing: --[\w-]+ \(.*\))$/,
      );
    }
  });

  test('An error that already has a label is not labelled again', async () => {
    const error = 'Error: x.nii is no image';
    const { rows } = await atTerminalOf({ marker: `__ERROR__ ${error}`, status: 'error', error }, [
      'logs',
      jobId,
    ]);
    expect(rows[0]).toBe(`Error: Job ${jobId} failed: x.nii is no image`);
    const override: Fake['override'] = (_, response) => {
      json(response, 422, { detail: error });
      return true;
    };
    expect((await atTerminalOf({ override }, ['health'])).rows[0]).toBe('Error: x.nii is no image');
  });

  test('--json has no colours', async () => {
    const { screen } = await atTerminalOf({ status: 'done' }, ['status', jobId, '--json']);
    expect(screen).not.toContain(esc);
  });

  test('--json escapes control characters, and a parser reads the same values', async () => {
    const { screen } = await atTerminalOf({ error: hostile }, ['status', jobId, '--json']);
    expectTame(screen);
    expect(JSON.parse(screen).error).toBe(hostile);
  });

  test.each([
    ['result', jobId],
    ['infer', 'ct.nii'],
  ])('A zip is not written to a terminal by %s', async (...args) => {
    let asked = 0;
    const override = () => {
      asked += 1;
      return false;
    };
    const { screen, code } = await atTerminalOf({ result: Buffer.from('PK'), override }, [
      ...args,
      '-o',
      '-',
    ]);
    expect([code, asked]).toEqual([2, 0]);
    expect(screen).toMatch(/redirect stdout/);
  });
});

describe('in a pipe', () => {
  test('In a pipe, a log is what the app printed, and names and reasons stay on one line', async () => {
    await using cli = await Cli.create();
    const lines = [`${esc}[31mred${esc}]0;t\u0007`];
    const error = `sad\n[remote-app] forged\u2028${esc}[2J`;
    await using server = await fakeService({ lines, error, status: 'error', apps: ['a\nb', 'c'] });
    const env = { REMOTE_APP_SERVER: server.url };
    const logs = await cli.run(['logs', jobId], env);
    expect(logs.stdout).toBe(`${lines[0]}\n`);
    const result = await cli.run(['result', jobId, '-o', path.join(cli.directory, 'Output')], env);
    expect(result.stderr).toBe(`Error: Job ${jobId} failed: sad\\x0a[remote-app] forged\\u2028\\x1b[2J\n`);
    expect((await cli.run(['status', jobId], env)).stdout).toMatch(/^Error +sad\\x0a\[remote-app\] forged/m);
    expect((await cli.run(['apps'], env)).stdout).toBe('a\\x0ab\nc\n');
  });

  test('In a pipe, the name of a file stays on one line', async () => {
    await using cli = await Cli.create();
    const name = `a\n[remote-app] forged${esc}[2J`;
    const { code, stderr } = await cli.run(['infer', '--app', 'x', name]);
    expect([code, stderr]).toEqual([
      2,
      `Error: No such file or directory: 'a\\x0a[remote-app] forged\\x1b[2J'\n`,
    ]);
  });
});
