import { truncate } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { type Fake, fakeService, jobId } from '../support/fake-service.js';
import { ScreenTerminal } from '../support/screen-terminal.js';
import { json } from '../support/scripted-server.js';
import { plant } from '../support/temporary.js';
import { Terminal, type TerminalOptions } from '../support/terminal.js';

const interrupt = '\u0003';
const mebi = 2 ** 20;
const spinner = '[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]';

/** A gate in a log: the stream waits there until it is opened. */
function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, before: (line: string) => () => opened.then(() => line) };
}

type AnyTerminal = Terminal | ScreenTerminal;

/** Where the command runs: on a simulated screen, unless the test needs a real pseudo-terminal and a process. */
interface Options extends TerminalOptions {
  readonly isReal?: boolean;
}

const terminalOf = (cli: Cli, args: readonly string[], { isReal = false, ...options }: Options) =>
  isReal ? new Terminal(cli, args, options) : new ScreenTerminal(cli, args, options);

/** Checks that nothing was drawn over other text, and that no row is wider than the screen. */
function expectWhole(terminal: AnyTerminal): void {
  expect(terminal.screen.wrapped).toEqual([]);
  for (const row of terminal.rows) expect(row).not.toMatch(new RegExp(`.${spinner}|.Uploading|.Error:|\\^C`));
}

async function withTerminal(
  fake: Fake,
  args: readonly string[],
  options: Options,
  use: (terminal: AnyTerminal) => Promise<void>,
): Promise<void> {
  await using cli = await Cli.create();
  await plant(cli.directory, { 'ct.nii': 'volume' });
  await using server = await fakeService(fake);
  const env = { REMOTE_APP_SERVER: server.url, ...options.env };
  await using terminal = terminalOf(cli, args, { ...options, env });
  await use(terminal);
}

/**
 * A command that uploads 64 MiB, to a server that handles it as the test says. As long as nothing reads the upload, the
 * buffers of the system take a few megabytes, and then no more.
 */
async function uploading(
  onUpload: (upload: IncomingMessage, response: ServerResponse) => void,
  use: (cli: Cli, args: readonly string[]) => Promise<void>,
  { size = 64 * mebi, more = [] }: { readonly size?: number; readonly more?: readonly string[] } = {},
): Promise<void> {
  await using cli = await Cli.create();
  await plant(cli.directory, { 'ct.nii': '' });
  await truncate(path.join(cli.directory, 'ct.nii'), size);
  const override: Fake['override'] = ({ method }, response, raw) => {
    if (method !== 'POST') return false;
    raw.on('error', () => {});
    onUpload(raw, response);
    return true;
  };
  await using server = await fakeService({ override }, true);
  await use(cli, ['infer', '--app', 'tissue', 'ct.nii', '--server', server.url, ...more]);
}

/** A terminal with such an upload. */
const withUpload = (
  onUpload: (upload: IncomingMessage, response: ServerResponse) => void,
  options: Options,
  use: (terminal: AnyTerminal) => Promise<void>,
  upload?: Parameters<typeof uploading>[2],
): Promise<void> =>
  uploading(
    onUpload,
    async (cli, args) => {
      const env = { NO_COLOR: '1', ...options.env };
      await using terminal = terminalOf(cli, args, { ...options, env });
      await use(terminal);
    },
    upload,
  );

const leaveIt = () => {};

describe('an upload', () => {
  test.each([
    [120, /^Uploading \[=+-+\] \d+% [\d.]+ [KM]iB\/s [\d.]+ MiB of 64\.0 MiB ETA \d.*$/],
    [80, /^Uploading \[=+-+\] \d+% [\d.]+ [KM]iB\/s [\d.]+ MiB of 64\.0 MiB ETA \d.*$/],
    [40, /^Uploading (\[=*-+\] )?\d+% .*ETA \d.*$/],
  ])('At %d columns an upload is drawn as one line, which Ctrl-C removes', async (columns, bar) => {
    await withUpload(leaveIt, { columns }, async (terminal) => {
      await terminal.shows(bar);
      expect(terminal.rows).toHaveLength(1);
      terminal.type(interrupt);
      expect(await terminal.ended()).toBe(130);
      expect(terminal.rows).toEqual(['Error: Interrupted']);
      expectWhole(terminal);
    });
  });

  test('An upload stays on one line when the terminal becomes narrower and wider again', async () => {
    await withUpload(leaveIt, { columns: 100, isReal: true }, async (terminal) => {
      await terminal.shows(/ETA/);
      for (const columns of [60, 30, 110]) {
        // Frames of the old width still arrive after the change, because the system informs the program late.
        terminal.screen.resize(columns);
        const unaware = terminal.written.length;
        await terminal.sends(unaware, /Uploading.*Uploading/s);
        terminal.resize(columns);
        const before = terminal.written.length;
        await terminal.shows(columns === 30 ? /^Uploading \d+% ETA .*$/ : /of 64\.0 MiB ETA .*$/);
        await terminal.sends(before, /Uploading/);
        expect(terminal.rows).toHaveLength(1);
      }
      terminal.type(interrupt);
      expect(await terminal.ended()).toBe(130);
      expect(terminal.rows).toEqual(['Error: Interrupted']);
      expectWhole(terminal);
    });
  });

  test('A broken upload is reported above its bar, and pressed keys change nothing', async () => {
    const uploads: IncomingMessage[] = [];
    await withUpload(
      (upload) => uploads.push(upload),
      { columns: 200 },
      async (terminal) => {
        await terminal.shows(/ETA/);
        terminal.type('abc');
        uploads[0]?.socket.destroy();
        await terminal.shows(/^http.* takes the upload, which starts over$/);
        await terminal.shows(/^Uploading/);
        expect(terminal.rows.at(-1)).toMatch(/^Uploading/);
        terminal.type(interrupt);
        expect(await terminal.ended()).toBe(130);
        expect(terminal.rows).toEqual([
          expect.stringMatching(/; trying again for another \d+ min$/),
          expect.stringMatching(/ takes the upload, which starts over$/),
          'Error: Interrupted',
        ]);
        expectWhole(terminal);
      },
    );
  });

  test.each([
    ['in a pipe', async (cli: Cli, args: readonly string[]) => (await cli.run(args)).stderr],
    [
      'in CI',
      async (cli: Cli, args: readonly string[]) => {
        await using terminal = new ScreenTerminal(cli, args, { env: { CI: '1' }, columns: 200 });
        await terminal.ended();
        return terminal.written.replaceAll('\r\n', '\n');
      },
    ],
  ])('A long upload prints a line every 10 %% %s', async (_, run) => {
    // A transfer counts as long after this time.
    const readLate = (upload: IncomingMessage, response: ServerResponse) => {
      setTimeout(() => upload.resume(), 3500);
      upload.on('end', () => json(response, 500, { detail: 'no' }));
    };
    let text = '';
    await uploading(readLate, async (cli, args) => {
      text = await run(cli, args);
    });
    expect(text).not.toContain('\r');
    const lines = text.trimEnd().split('\n');
    expect(lines.at(-1)).toMatch(/^Error: /);
    expect(lines.at(-2)).toMatch(/^Uploaded 64\.0 MiB in [345] s \([\d.]+ MiB\/s\)$/);
    const moved = lines.slice(0, -2);
    for (const line of moved) {
      expect(line).toMatch(/^Uploading: \d+ %, [\d.]+ MiB of 64\.0 MiB, [\d.]+ [KM]iB\/s, .+ left$/);
    }
    const tens = moved.map((line) => Math.floor(Number(/\d+/.exec(line)) / 10));
    expect(tens).toEqual([...new Set(tens)]);
    expect(tens.slice(-3)).toEqual([7, 8, 9]);
  });

  test('An upload that fails for good leaves only the error', async () => {
    // After its first bytes, which a repeated upload sends before it waits.
    const breakIt = (upload: IncomingMessage) => {
      let read = 0;
      upload.on('data', ({ length }: Buffer) => {
        read += length;
        if (read > mebi) upload.socket.destroy();
      });
    };
    const use = async (terminal: AnyTerminal) => {
      expect(await terminal.ended()).toBe(5);
      expectWhole(terminal);
      expect(terminal.rows.at(-1)).toMatch(/^Error: .*broke/);
      expect(terminal.rows.filter((row) => row.startsWith('Uploading'))).toEqual([]);
    };
    // The buffers take all of it each time, so no attempt gets further than the previous one.
    await withUpload(breakIt, { columns: 300 }, use, { size: 2 * mebi, more: ['--patience', '5'] });
  }, 120_000);
});

describe('a log at a terminal', () => {
  const first = `[remote-app] Remote job ${jobId} accepted: infer on tissue`;

  test('The bars of an app are redrawn in place, cut to the width, and the log continues below', async () => {
    const held = gate();
    const bar = (percent: number) => `${percent}%|${'肝'.repeat(60)}|\r`;
    const lines = [
      'loading',
      '\r',
      bar(10),
      bar(20),
      held.before(bar(99)),
      '100%|done',
      'saving 1\r',
      'saving 2\r',
      'saved',
    ];
    await withTerminal({ lines }, ['logs', jobId], { columns: 40 }, async (terminal) => {
      await terminal.shows(/^20%\|肝+$/);
      expect(terminal.rows).toHaveLength(2);
      held.open();
      expect(await terminal.ended()).toBe(0);
      expect(terminal.rows).toEqual(['loading', '100%|done', 'saving 2', 'saved']);
      expectWhole(terminal);
    });
  });

  test.each([
    ['as lines, as KonfAI’s server sends them', ''],
    ['as redraws', '\r'],
  ])('The progress that an app prints is shown on the drawn line: %s', async (_, end) => {
    const [outer, after] = [gate(), gate()];
    const bar = (what: string, percent: number) =>
      `${what}: ${percent}%|${'#'.repeat(percent / 10).padEnd(10)}| ${percent}/100 [00:10<00:12,  4.5it/s]${end}`;
    const lines = [
      'loading',
      bar('Prediction', 40),
      bar('Patch', 10),
      bar('Patch', 80),
      outer.before('a line between'),
      bar('Prediction', 100),
      after.before('saved'),
    ];
    const options = { columns: 80, env: { NO_COLOR: '1' } };
    await withTerminal({ lines }, ['logs', jobId], options, async (terminal) => {
      await terminal.shows(/^Patch: 80%\|#{8} {2}\| 80\/100 \[00:10<00:12, {2}4\.5it\/s\]$/);
      expect(terminal.rows).toHaveLength(2);
      outer.open();
      await terminal.shows(/^Prediction: 100%\|#{10}\| 100\/100 /);
      expect(terminal.rows[0]).toBe('loading');
      after.open();
      expect(await terminal.ended()).toBe(0);
      const [patch, prediction] = [bar('Patch', 80).trim(), bar('Prediction', 100).trim()];
      expect(terminal.rows).toEqual(['loading', patch, 'a line between', prediction, 'saved']);
      expectWhole(terminal);
    });
  });

  test('Progress stays on ordinary lines if nothing can be drawn', async () => {
    await using cli = await Cli.create();
    const lines = ['Prediction : 40%|####      | 4/10 [00:10<00:12]', '45% 3/25', '50% 4/25'];
    await using server = await fakeService({ lines });
    const piped = await cli.run(['logs', jobId, '--server', server.url]);
    expect(piped.stdout).toBe(`${lines.join('\n')}\n`);
    const documents = await cli.run(['logs', jobId, '--json', '--server', server.url]);
    expect(
      documents.stdout
        .split('\n')
        .slice(0, 3)
        .map((line) => JSON.parse(line).text),
    ).toEqual(lines);
    const env = { REMOTE_APP_SERVER: server.url, CI: '1' };
    await using terminal = new ScreenTerminal(cli, ['logs', jobId], { env });
    await terminal.ended();
    expect(terminal.written).toBe(`${lines.join('\r\n')}\r\n`);
  });

  test('A silent log shows below its lines that the command is waiting for the job', async () => {
    const held = gate();
    const lines = ['a', held.before('b')];
    await withTerminal({ lines }, ['logs', jobId], {}, async (terminal) => {
      await terminal.shows(/^a$/);
      await terminal.shows(new RegExp(`^${spinner} Waiting for job ${jobId}$`));
      expect(terminal.rows).toHaveLength(2);
      held.open();
      expect(await terminal.ended()).toBe(0);
      expect(terminal.rows).toEqual(['a', 'b']);
    });
  });

  test('logs --all prints every state of a bar as a line', async () => {
    const lines = ['a', '1%\r', '2%\r', 'b'];
    await withTerminal({ lines }, ['logs', jobId, '--all'], {}, async (terminal) => {
      await terminal.ended();
      expect(terminal.rows).toEqual(['a', '1%', '2%', 'b']);
    });
  });

  test('The position in the queue is shown on one line that changes', async () => {
    const [second, start] = [gate(), gate()];
    const place = (position: number) => `[remote-app] Waiting for GPU 0: position ${position} in the queue\r`;
    const lines = [
      first,
      place(2),
      second.before(place(1)),
      start.before('[remote-app] Starting infer on GPU 0'),
      'app',
    ];
    await withTerminal({ lines }, ['logs', jobId], {}, async (terminal) => {
      await terminal.shows(new RegExp(`^${spinner} Waiting for GPU 0: position 2 in the queue$`));
      second.open();
      await terminal.shows(new RegExp(`^${spinner} Waiting for GPU 0: position 1 in the queue$`));
      expect(terminal.rows).toHaveLength(2);
      start.open();
      await terminal.ended();
      expect(terminal.rows).toEqual([first, '[remote-app] Starting infer on GPU 0', 'app']);
      expectWhole(terminal);
    });
  });

  test('A log stays readable when another program writes it to the terminal', async () => {
    const [held, more] = [gate(), gate()];
    const lines = [first, held.before('[remote-app] Go'), more.before('10%\r'), '20%\r', 'line', 'last'];
    await withTerminal({ lines }, ['logs', jobId], { isReal: true, pipe: '| cat' }, async (terminal) => {
      await terminal.shows(/ accepted: infer on tissue$/);
      await terminal.sends(terminal.written.length, /Waiting for job/);
      // Shorter than the drawn line, whose rest would remain visible.
      held.open();
      await terminal.shows(/^\[remote-app\] Go/);
      more.open();
      await terminal.ended();
      expect(terminal.rows).toEqual([first, '[remote-app] Go', '20%', 'line', 'last']);
      expectWhole(terminal);
    });
  });

  test.each([
    ['with a bar keeps its last state', ['10%\r', '20%\r'], /^20%$/, ['20%']],
    ['without anything drawn is whole', ['b'], /^b$/, ['b']],
  ])('A log ended by Ctrl-C %s, and the message is on a line of its own', async (_, more, shown, rows) => {
    const lines = ['a', ...more, gate().before('never')];
    await withTerminal({ lines }, ['logs', jobId], { env: { NO_COLOR: '1' } }, async (terminal) => {
      await terminal.shows(shown);
      terminal.type(interrupt);
      expect(await terminal.ended()).toBe(130);
      expect(terminal.rows).toEqual([
        'a',
        ...rows,
        `Job ${jobId} goes on; 'remote-app kill ${jobId}' ends it`,
        'Error: Interrupted',
      ]);
      expectWhole(terminal);
    });
  });

  test('A broken connection neither loses nor repeats a state of a bar', async () => {
    const lines = ['a', '10%\r', '20%\r', '30%\r', 'b', '\r', '1/3\r', '2/3\r', '3/3', 'c'];
    let broken = false;
    const override: Fake['override'] = ({ url }, response) => {
      if (!url.includes('/logs') || broken) return false;
      broken = true;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const event = (index: number) => `id: ${index + 1}\nevent: redraw\ndata: ${lines[index]?.trim()}\n\n`;
      response.write(`id: 1\ndata: a\n\n${event(1)}${event(2)}`, () => response.destroy());
      return true;
    };
    await withTerminal({ lines, override }, ['logs', jobId], { env: { NO_COLOR: '1' } }, async (terminal) => {
      expect(await terminal.ended()).toBe(0);
      const dropped = expect.stringMatching(/; trying again for another \d+ min$/);
      expect(terminal.rows).toEqual(['a', dropped, '30%', 'b', '3/3', 'c']);
    });
  });
});

describe('a whole run at a terminal', () => {
  test('A run says once that the job is accepted, and Ctrl-C kills the job while it waits, with each message on its own line', async () => {
    const lines = [`[remote-app] Remote job ${jobId} accepted: infer on tissue`, gate().before('never')];
    await withTerminal({ lines }, ['infer', 'ct.nii'], { env: { NO_COLOR: '1' } }, async (terminal) => {
      await terminal.shows(new RegExp(`^${spinner} Waiting for job`));
      terminal.type(interrupt);
      expect(await terminal.ended()).toBe(130);
      expect(terminal.rows).toEqual([
        `Job ${jobId} is accepted: infer on tissue`,
        `Interrupted: killing remote job ${jobId}`,
        `Error: Interrupted; remote job ${jobId} is killed`,
      ]);
      expectWhole(terminal);
    });
  });

  test('A run shows how long its job has been running, even next to a bar with a long name, and Ctrl-\\ leaves the job running', async () => {
    const [bar, kills] = [gate(), { count: 0 }];
    const name = `sub-01_${'a-long-name-of-a-case_'.repeat(12)}T1w.nii.gz`;
    const lines = [
      `[remote-app] Remote job ${jobId} accepted: infer on tissue`,
      '[remote-app] Starting infer on GPU 0',
      bar.before(`${name}: 40%|####      | 40/100 [00:10<00:12,  4.5it/s]`),
      gate().before('never'),
    ];
    const onKill = () => {
      kills.count += 1;
    };
    const options = { env: { NO_COLOR: '1' }, columns: 80 };
    await withTerminal({ lines, onKill }, ['infer', 'ct.nii'], options, async (terminal) => {
      await terminal.shows(new RegExp(`^${spinner} Waiting for job ${jobId} \\(\\d+ s so far\\)$`));
      terminal.resize(32);
      await terminal.shows(new RegExp(`^${spinner} Waiting for jo? \\(\\d+ s so far\\)$`));
      terminal.resize(80);
      bar.open();
      await terminal.shows(/^sub-01_a-long-.*…\S*: 40%\|/);
      terminal.resize(140);
      await terminal.shows(/^sub-01_a-long-.*…\S*: 40%\|.*40\/100/);
      terminal.type('\u001c');
      expect(await terminal.ended()).toBe(130);
      expect(terminal.rows.join('')).toContain(
        `Error: Interrupted; remote job ${jobId} goes on: 'remote-app logs ${jobId}' follows it, ` +
          `'remote-app result ${jobId}' fetches its result`,
      );
      expect(kills.count).toBe(0);
    });
  });

  test('Ctrl-C says how to fetch what the killed job left', async () => {
    const fake = { lines: ['a', gate().before('never')], status: 'killed', view: { left_files: 3 } };
    const options = { env: { NO_COLOR: '1' }, columns: 200 };
    await withTerminal(fake, ['infer', 'ct.nii'], options, async (terminal) => {
      await terminal.shows(/^a$/);
      terminal.type(interrupt);
      expect(await terminal.ended()).toBe(130);
      expect(terminal.rows.at(-1)).toBe(
        `Error: Interrupted; remote job ${jobId} is killed and left 3 files; 'remote-app result ${jobId} --partial' fetches what it left`,
      );
    });
  });

  test('A second Ctrl-C ends the command at once, says what may still run, and leaves a complete line', async () => {
    const lines = ['a', gate().before('never')];
    const override: Fake['override'] = ({ url }) => url.endsWith('/kill');
    await withTerminal(
      { lines, override },
      ['infer', 'ct.nii'],
      { isReal: true, env: { NO_COLOR: '1' }, columns: 200 },
      async (terminal) => {
        await terminal.shows(/^a$/);
        terminal.type(interrupt);
        await terminal.shows(/^Interrupted: killing/);
        terminal.type(interrupt);
        expect(await terminal.ended()).toBe(130);
        expect(terminal.rows).toEqual([
          `Job ${jobId} is accepted: infer on tissue`,
          'a',
          `Interrupted: killing remote job ${jobId}`,
          `Error: Interrupted; remote job ${jobId} may still run: 'remote-app kill ${jobId}' ends it`,
        ]);
        expectWhole(terminal);
        expect(terminal.screen.cursor).toEqual([4, 0]);
      },
    );
  });

  test('If the end of a killed job cannot be confirmed, the message names the command that ends it', async () => {
    const lines = ['a', gate().before('never')];
    const override: Fake['override'] = ({ url }, _, raw) => {
      if (!url.endsWith('/kill')) return false;
      raw.socket.destroy();
      return true;
    };
    const options = { env: { NO_COLOR: '1' }, columns: 240 };
    await withTerminal({ lines, override }, ['infer', 'ct.nii'], options, async (terminal) => {
      await terminal.shows(/^a$/);
      terminal.type(interrupt);
      expect(await terminal.ended()).toBe(130);
      expect(terminal.rows.at(-1)).toMatch(
        /^Error: Interrupted; remote job \w+ may still run: 'remote-app kill \w+' ends it \(The connection .*closed on the other side\)$/,
      );
    });
  });

  test('A wait for a result is reported once', async () => {
    const override: Fake['override'] = ({ url }, response) => {
      if (!url.endsWith('/result')) return false;
      json(response, 202, { job_id: jobId, status: 'running' });
      return true;
    };
    await withTerminal({ override }, ['result', jobId], { env: { NO_COLOR: '1' } }, async (terminal) => {
      await terminal.shows(new RegExp(`^${spinner} Job ${jobId} is running; waiting for its end$`));
      expect(terminal.rows).toHaveLength(1);
      terminal.type(interrupt);
      expect(await terminal.ended()).toBe(130);
    });
  });

  test.each([
    ['CI', { CI: '1' }],
    ['a terminal without control sequences', { TERM: 'dumb' }],
  ])('Nothing is drawn in %s', async (_, env) => {
    const lines = ['a', '10%\r', '20%\r', '[remote-app] Waiting for GPU 0: position 2 in the queue\r', 'b'];
    await withTerminal({ lines }, ['logs', jobId], { env }, async (terminal) => {
      await terminal.ended();
      expect(terminal.written).toBe(
        'a\r\n[remote-app] Waiting for GPU 0: position 2 in the queue\r\n20%\r\nb\r\n',
      );
    });
  });
});
