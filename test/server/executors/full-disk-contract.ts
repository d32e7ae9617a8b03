import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { smallDisk } from '../../support/small-disk.js';
import { until } from '../../support/until.mjs';
import { Bench, Followed, type Subject } from './support.js';

/** Fills the disk. */
function fill(file: string): void {
  for (const size of [1 << 20, 4096, 1]) {
    try {
      for (;;) writeFileSync(file, Buffer.alloc(size), { flag: 'a' });
    } catch {
      // Less than this size is left.
    }
  }
}

/** The behaviour of every executor when the disk of the job directories is full. */
export function fullDiskContract(name: string, subject: Subject): void {
  const disk = smallDisk(4);
  const filler = path.join(disk ?? '', 'filler');

  /** A job that was placed while the disk has no room to start it. */
  async function placedWithoutRoom(bench: Bench) {
    const executor = await bench.executor();
    const job = bench.job();
    fill(filler);
    const run = new Followed(executor.run(job.order('echo ready')));
    await until('it is placed', () => run.kinds.includes('placed'));
    return { executor, job, run };
  }

  describe.skipIf(disk === null)(`${name} on a full disk (needs the right to mount one)`, () => {
    test('A job starts as soon as there is space', async () => {
      await using bench = await Bench.open(subject, disk ?? '');
      const { job, run } = await placedWithoutRoom(bench);
      expect(job.log).toBe('');
      rmSync(filler);
      expect(await run.ended).toMatchObject({ exitCode: 0, fault: null });
      expect(job.log).toBe('ready\n');
    });

    test('A job that is stopped before there is space does not start', async () => {
      await using bench = await Bench.open(subject, disk ?? '');
      const { executor, job, run } = await placedWithoutRoom(bench);
      await executor.stop(job);
      expect(await run.ended).toMatchObject({ exitCode: null, fault: null });
      rmSync(filler);
      expect(job.log).toBe('');
    });

    test('A job that filled the disk ends with a report of how much of its log is lost', async () => {
      await using bench = await Bench.open(subject, disk ?? '');
      const executor = await bench.executor();
      const job = bench.job();
      const script = 'cat /dev/zero > full 2>/dev/null; for i in 1 2 3; do echo line; done; exit 4';
      const run = new Followed(executor.run(job.order(script)));
      const { exitCode, lostLines } = await run.ended;
      expect(exitCode).toBe(4);
      expect(lostLines).toBe(3);
    });

    test('A full disk is reported if the runner could not record how the job ended', async () => {
      await using bench = await Bench.open(subject, disk ?? '');
      const executor = await bench.executor();
      const job = bench.job();
      const run = new Followed(
        executor.run(job.order('cat /dev/zero > full 2>/dev/null; echo ready >&2; sleep 600')),
      );
      await until('the command runs', () => job.processes().length > 1);
      await until('the disk is full', () => run.kinds.length === 1 && isFull(disk ?? ''));
      subject.lose(job.path);
      expect(await run.ended).toMatchObject({ exitCode: null, fault: 'diskFull' });
    });
  });
}

/** Whether not even one byte can be written. */
function isFull(directory: string): boolean {
  const probe = path.join(directory, 'probe');
  try {
    writeFileSync(probe, 'x');
    rmSync(probe);
    return false;
  } catch {
    rmSync(probe, { force: true });
    return true;
  }
}
