import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { type Gpu, GpuInventory } from '../../../src/server/devices/gpu-inventory.js';
import { NvidiaSmi, parseRows } from '../../../src/server/devices/nvidia-smi.js';
import { FakeNvidiaSmi, type Mode } from '../../support/nvidia-smi.js';
import { until } from '../../support/until.mjs';

const bin = fileURLToPath(new URL('../../fixtures/bin', import.meta.url));
const { PATH } = process.env;

beforeEach(() => {
  process.env.PATH = `${bin}:${PATH}`;
  process.env.FAKE_GPUS = '2';
});

afterEach(() => {
  process.env.PATH = PATH;
  delete process.env.FAKE_GPUS;
  delete process.env.FAKE_NVIDIA_SMI;
});

/** Sets up the imitation for this process. */
function fake(mode: Mode): FakeNvidiaSmi {
  const smi = new FakeNvidiaSmi(mode);
  Object.assign(process.env, smi.environment);
  onTestFinished(() => smi[Symbol.dispose]());
  return smi;
}

const ids = (rows: readonly { id: number }[]) => rows.map(({ id }) => id);

describe('nvidia-smi', () => {
  test('nvidia-smi is started once for simultaneous calls', async () => {
    const started = fake('well');
    const smi = new NvidiaSmi();
    const answers = await Promise.all(Array.from({ length: 20 }, () => smi.ask()));
    expect(new Set(answers).size).toBe(1);
    expect(ids(answers[0] ?? [])).toEqual([0, 1]);
    expect(started.started).toHaveLength(1);
    await smi.ask();
    expect(started.started).toHaveLength(2);
  });

  test('nvidia-smi that is not installed, or finds no device, gives an empty list', async () => {
    process.env.FAKE_GPUS = '0';
    expect(await new NvidiaSmi().ask()).toEqual([]);
    process.env.PATH = '/nowhere';
    expect(await new NvidiaSmi().ask()).toEqual([]);
    // A directory of this name cannot be executed: the system says that permission is denied.
    const directory = mkdtempSync(path.join(tmpdir(), 'remote-app-test-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    mkdirSync(path.join(directory, 'nvidia-smi'));
    process.env.PATH = directory;
    expect(await new NvidiaSmi().ask()).toEqual([]);
  });

  test('nvidia-smi also lists the GPUs with a driver that does not know MIG', async () => {
    process.env.FAKE_MIG = 'unknown';
    onTestFinished(() => void delete process.env.FAKE_MIG);
    expect(ids(await new NvidiaSmi().ask())).toEqual([0, 1]);
  });

  /** One that does this. */
  function scripted(lines: string, onOdd?: (oddity: string) => void): NvidiaSmi {
    const directory = mkdtempSync(path.join(tmpdir(), 'remote-app-test-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    writeFileSync(path.join(directory, 'nvidia-smi'), `#!/bin/sh\n${lines}\n`, { mode: 0o755 });
    return new NvidiaSmi(undefined, undefined, onOdd, { PATH: directory });
  }

  test('nvidia-smi may report in words that there is no device, and its stderr explains a failure', async () => {
    for (const said of ['echo No devices were found', 'echo "No devices were found" >&2; exit 9', 'exit 6'])
      expect(await scripted(said).ask()).toEqual([]);
    await expect(scripted('echo "cannot talk to the driver" >&2; exit 3').ask()).rejects.toThrow(
      "nvidia-smi failed (exit code 3): 'cannot talk to the driver'",
    );
  });

  test('nvidia-smi does not flood the log with warnings that differ each time', async () => {
    const told: string[] = [];
    const smi = scripted('echo "WARNING $$"; echo "0, GPU-a, 1, 2, x"', (oddity) => told.push(oddity));
    for (let time = 0; time < 22; time += 1) expect(ids(await smi.ask())).toEqual([0]);
    expect([told.length, new Set(told).size]).toEqual([20, 20]);
  });

  test('nvidia-smi counts as failed, not as missing, if it is on PATH but cannot be started', async () => {
    const directory = mkdtempSync(path.join(tmpdir(), 'remote-app-test-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const program = path.join(directory, 'nvidia-smi');
    process.env.PATH = directory;
    writeFileSync(program, '#!/no/such/interpreter\n', { mode: 0o755 });
    await expect(new NvidiaSmi().ask()).rejects.toThrow(/could not be started: no such file/);
    writeFileSync(program, '', { mode: 0o644 });
    rmSync(program);
    writeFileSync(program, '#!/bin/sh\n', { mode: 0o644 });
    await expect(new NvidiaSmi().ask()).rejects.toThrow(/could not be started: permission denied/);
  });

  test('nvidia-smi is killed with its child processes when it hangs beyond the deadline', async () => {
    const started = fake('hang');
    const smi = new NvidiaSmi(300);
    for (let call = 1; call <= 3; call += 1) {
      await expect(smi.ask()).rejects.toThrow('did not answer within 0.3 seconds');
      await until('it is ended', () => started.running.length === 0);
      expect(started.started).toHaveLength(call);
    }
  });

  test("nvidia-smi's answer counts even if one of its children keeps the pipe open", async () => {
    const started = fake('hold');
    const smi = new NvidiaSmi(20_000);
    expect(ids(await smi.ask())).toEqual([0, 1]);
    // The child was ended with its group, so another call is possible.
    await until('it may be asked again', () => smi.ask().then(ids, () => null));
    expect(started.running).toEqual([]);
  });

  test('nvidia-smi is not started again while an earlier one survives SIGKILL', async () => {
    const started = fake('hang');
    const killed = new Set<number>();
    const smi = new NvidiaSmi(200, (pid) => killed.add(pid));
    await expect(smi.ask()).rejects.toThrow('did not answer');
    const [pid = 0] = started.started;
    expect([...killed]).toEqual([pid]);
    for (let call = 0; call < 3; call += 1) {
      const answers = await Promise.allSettled(Array.from({ length: 10 }, () => smi.ask()));
      const words = `nvidia-smi (process ${pid}) hangs and could not be ended`;
      for (const answer of answers) {
        expect(answer).toMatchObject({ reason: { message: expect.stringContaining(words) } });
      }
    }
    expect(started.started).toEqual([pid]);
    // At last the process ends.
    process.kill(-pid, 'SIGKILL');
    started.mode = 'well';
    expect(await until('it may be asked again', () => smi.ask().then(ids, () => null))).toEqual([0, 1]);
  });
});

describe('an answer of nvidia-smi', () => {
  const row = (id: string) => `${id}, GPU-a-${id}, 512, 143771, Disabled, NVIDIA H200`;

  test('An answer of nvidia-smi is read line by line, and other lines are skipped', () => {
    const lines = [
      '',
      'WARNING: infoROM is corrupted',
      row('1'),
      'index, uuid',
      'ERR!',
      row('-1'),
      row('x'),
      row('0'),
    ];
    expect(ids(parseRows(lines.join('\r\n')))).toEqual([1, 0]);
    expect(parseRows(`${row('3')}\n${row('3').replace('H200', 'L4')}`)).toEqual([
      {
        id: 3,
        uuid: 'GPU-a-3',
        used: 512 << 20,
        total: 143_771 * 2 ** 20,
        name: 'NVIDIA H200',
        fault: null,
        isMemoryTold: true,
        isDivided: false,
        mig: null,
      },
    ]);
  });

  test('An answer of nvidia-smi may have names with commas; control characters are escaped', () => {
    expect(parseRows('0, GPU-1, 1, 2, Made by X, Inc.\x1b]0;y\x07')[0]?.name).toBe(
      'Made by X, Inc.\\x1b]0;y\\x07',
    );
    expect(parseRows(`0, GPU-1, 1, 2, ${'n'.repeat(10_000)}`)[0]?.name).toHaveLength(200);
  });

  test('An answer of nvidia-smi reports a GPU as failed if the driver cannot query it', () => {
    const fault = (uuid: string, name = 'NVIDIA H200') => parseRows(`0, ${uuid}, 1, 2, ${name}`)[0]?.fault;
    for (const said of ['[GPU is lost]', '[Unknown Error]', '[GPU requires reset]', 'ERR!']) {
      expect([said, fault(said), fault('GPU-1', said)]).toEqual([said, said, said]);
    }
    for (const fine of ['GPU-1', '[N/A]', '[Not Supported]', '[not supported]', '']) {
      expect([fine, fault(fine), fault('GPU-1', fine)]).toEqual([fine, null, null]);
    }
  });

  test('An answer of nvidia-smi also reports a GPU as failed if its memory cannot be read for that reason', () => {
    const fault = (memory: string) => parseRows(`0, GPU-1, ${memory}, 143771, NVIDIA H200`)[0]?.fault;
    for (const said of ['[GPU is lost]', '[Unknown Error]', '[GPU requires reset]', 'ERR!']) {
      expect(fault(said)).toBe(said);
    }
    for (const fine of ['1', 'N/A', '[N/A]', '[Insufficient Permissions]', '[Function Not Found]', '']) {
      expect([fine, fault(fine)]).toEqual([fine, null]);
    }
  });

  test('An answer of nvidia-smi is accepted even if a row is cut off or contains units', () => {
    expect(parseRows(`0, GPU-1, 512 MiB, 143771 MiB, NVIDIA H200\n1, GPU-2, 51`)).toMatchObject([
      { id: 0, used: 512 << 20, total: 143_771 * 2 ** 20 },
    ]);
  });

  test('An answer of nvidia-smi distinguishes memory that is never reported from an unreadable figure', () => {
    const figures = (used: string, total: string) => {
      const found = parseRows(`0, GPU-1, ${used}, ${total}, x`)[0];
      return [found?.used, found?.total, ...(found?.isMemoryTold ? [] : ['never told'])];
    };
    expect(figures('[N/A]', '[Not Supported]')).toEqual([null, null, 'never told']);
    expect(figures('1', '[N/A]')).toEqual([2 ** 20, null, 'never told']);
    for (const bad of ['ERR!', '[GPU is lost]', '', '-1', '1e9', 'NaN', '9999999999999']) {
      expect(figures(bad, '1')).toEqual([null, 2 ** 20]);
    }
  });
});

describe('the list of GPUs', () => {
  const times = { firstPause: 20, longestPause: 40 };

  /** An inventory with this deadline for nvidia-smi; it is closed after the test. */
  function inventory(deadline = 20_000, visible?: string, firstWait = 20_000): GpuInventory {
    const made = new GpuInventory(visible, new NvidiaSmi(deadline), { ...times, firstWait });
    onTestFinished(() => made.close());
    return made;
  }

  test('The list of GPUs gains new GPUs later, and keeps missing ones as faulty', async () => {
    process.env.FAKE_GPUS = '1';
    fake('well');
    const gpus = inventory();
    await gpus.start();
    const [first] = gpus.current ?? [];
    if (!first) throw new Error('There is no GPU');
    expect([ids(gpus.current ?? []), gpus.faultOf(first)]).toEqual([[0], null]);
    process.env.FAKE_GPUS = '0';
    await gpus.look();
    expect([ids(gpus.current ?? []), gpus.faultOf(first)]).toEqual([
      [0],
      'nvidia-smi does not list it any more',
    ]);
    process.env.FAKE_GPUS = '2';
    await gpus.look();
    expect([ids(gpus.current ?? []), gpus.faultOf(first)]).toEqual([[0, 1], null]);
  });

  test('The list of GPUs omits a GPU that has failed, and is unknown if all have failed', async () => {
    const smi = fake('dead');
    for (const visible of [undefined, '0,1', 'GPU-5e1f0c30,GPU-5e1f0c31']) {
      const gpus = inventory(20_000, visible);
      await gpus.start();
      expect([ids(gpus.current ?? []), gpus.failed]).toEqual([[0], [{ id: 1, fault: '[GPU is lost]' }]]);
    }
    const zero = inventory(20_000, '0');
    await zero.start();
    expect([ids(zero.current ?? []), zero.failed]).toEqual([[0], []]);
    const one = inventory(20_000, '1');
    await one.start();
    expect([one.current, one.problem]).toEqual([
      null,
      "nvidia-smi lists no GPU that works (GPU 1: '[GPU is lost]')",
    ]);
    smi.mode = 'well';
    await until('it is known', () => one.current);
    expect(ids(one.current ?? [])).toEqual([1]);
  });

  test('The list of GPUs is empty, and nvidia-smi is not started, if CUDA_VISIBLE_DEVICES names none', async () => {
    const smi = fake('hang');
    for (const visible of ['', ' ', ',', '-1', '-1,0', 'NoDevFiles', 'none']) {
      const gpus = inventory(300, visible);
      await gpus.start();
      expect([visible, gpus.current, smi.started]).toEqual([visible, [], []]);
      expect(gpus.whyNone).toMatch(/CUDA_VISIBLE_DEVICES/);
    }
  });

  test('The list of GPUs stays unknown if a later answer shows that CUDA_VISIBLE_DEVICES names none of them', async () => {
    const smi = fake('fail');
    const gpus = inventory(20_000, '7');
    await gpus.start();
    smi.mode = 'well';
    await until('it is asked again', () => /names no GPU/.test(gpus.problem));
    expect(gpus.current).toBeNull();
  });

  test('The list of GPUs has only what CUDA_VISIBLE_DEVICES names before a -1', async () => {
    process.env.FAKE_GPUS = '3';
    fake('well');
    const seen = async (visible: string) => {
      const gpus = inventory(20_000, visible);
      await gpus.start();
      return ids(gpus.current ?? []);
    };
    expect(await seen('2, 0')).toEqual([0, 2]);
    expect(await seen('2,-1,1')).toEqual([2]);
    expect(await seen('GPU-5e1f0c31,-1,0')).toEqual([1]);
  });

  test('The list of GPUs finds the memory by UUID, and says which GPU has no figures', async () => {
    process.env.FAKE_GPUS = '3';
    const smi = fake('well');
    const gpus = inventory();
    await gpus.start();
    const [zero, one, two] = gpus.current as [Gpu, Gpu, Gpu];
    const renumbered = { ...one, id: 0 };
    expect(await gpus.vram([renumbered])).toEqual([{ used: 1024 << 20, total: 143_771 * 2 ** 20 }]);
    // Without a UUID by its id; in the order that is asked for.
    const unnamed = { ...zero, id: 2, uuid: '' };
    const each = [unnamed, zero].map(({ id }) => ({
      used: (512 * (id + 1)) << 20,
      total: 143_771 * 2 ** 20,
    }));
    expect(await gpus.vram([unnamed, zero])).toEqual(each);
    smi.mode = 'lost';
    await expect(gpus.vram([two])).rejects.toThrow('nvidia-smi does not report the memory of GPU 2');
  });
});
