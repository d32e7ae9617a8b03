import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { LogFile } from '../../src/runner/log.js';
import { makeFifo, openOutputPipe } from '../../src/runner/pipes.js';
import { identify, isAlive, processesOfJob, removedButOpen } from '../../src/runner/process-table.js';
import { jobMarker, outputFifo } from '../../src/runner/protocol.js';
import { descendantsOf, endOfCode, processesInside, readStatusOf } from '../../src/runner/sandboxed.js';
import {
  removeShortTemporary,
  sandboxFault,
  shortTemporary,
  startFault,
  startProgram,
} from '../../src/runner/start-program.js';
import { smallDisk } from '../support/small-disk.js';
import { temporary } from '../support/temporary.js';
import { until } from '../support/until.mjs';

afterEach(() => vi.unstubAllEnvs());

async function place(): Promise<string> {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  return root.path;
}

test.each([
  [0, { exitCode: 0, signal: null }],
  [128, { exitCode: 128, signal: null }],
  [129, { exitCode: null, signal: 'SIGHUP' }],
  [137, { exitCode: null, signal: 'SIGKILL' }],
  [255, { exitCode: 255, signal: null }],
])('In a sandbox exit code %d means %j', (code, end) => {
  expect(endOfCode(code)).toEqual(end);
});

test.each([
  ['{ "child-pid": 7 }\n{ "exit-code": 12 }\n', 12],
  ['{"exit-code":0}', 0],
  ['{ "child-pid": 7 }\n', undefined],
  ['', undefined],
])('The sandbox report %j means exit code %j', async (report, code) => {
  const stream = new PassThrough();
  const status = readStatusOf(stream);
  for (const character of report) stream.write(character);
  stream.end();
  expect(await status).toBe(code);
});

const fault = (code: string) =>
  Object.assign(new Error(`spawn /opt/app/run ${code}`), { code, errno: -13, syscall: 'spawn' });

test('The error of a program that cannot be started does not contain its path', () => {
  const command = ['/opt/app/run', 'a', 'b'];
  const why = (code: string) => startFault({ command }, fault(code));
  expect(why('ENOENT')).toBe("Cannot start 'run': there is no such program on the server");
  expect(why('EACCES')).toBe("Cannot start 'run': permission denied (EACCES)");
  expect(why('E2BIG')).toBe(
    "Cannot start 'run': its command line of 3 words is longer than the system allows (E2BIG). Each file and each value is a word of it: send fewer files and values, or files with shorter names",
  );
  vi.stubEnv('SLURMD_NODENAME', 'node7');
  expect(why('ENOENT')).toBe("Cannot start 'run': there is no such program on node 'node7'");
  expect(sandboxFault({ command })).toBe(
    "Cannot start 'run' in its sandbox; the line of bwrap in the log says why. What an app needs beside its own directory is named with serve --bind",
  );
});

test('A program gets the variables that are passed on, its own, and the marker of its job', async () => {
  const directory = await place();
  vi.stubEnv('GIVEN', 'given');
  vi.stubEnv('SECRET', 'secret');
  vi.stubEnv('BOTH', 'of the server');
  const request = {
    ...{ command: ['env'], wrapper: [], isSandboxed: false, directory },
    inherited: ['PATH', 'GIVEN', 'BOTH', 'NONE'],
    environment: { BOTH: 'of the job', OWN: '1' },
  };
  const child = startProgram(request, 'job-1', ['ignore', 'pipe', 'ignore']);
  let text = '';
  child.stdout?.on('data', (chunk) => {
    text += chunk;
  });
  await once(child, 'close');
  expect(
    text
      .split('\n')
      .filter((line) => !line.startsWith('PATH='))
      .sort(),
  ).toEqual(['', 'BOTH=of the job', 'GIVEN=given', 'OWN=1', `${jobMarker}=job-1`]);
});

test('A missing program is not started in a sandbox', async () => {
  const directory = await place();
  const request = {
    ...{ command: ['no-such-program'], wrapper: ['true'], isSandboxed: true, directory },
    ...{ inherited: [], environment: {} },
  };
  expect(() => startProgram(request, 'job-1', ['ignore'])).toThrow(
    expect.objectContaining({ code: 'ENOENT' }),
  );
});

test('A long directory for temporary files gets a short alias, which is removed without touching the aliases of others', async () => {
  const root = await place();
  const services = path.join(root, 's');
  mkdirSync(services);
  vi.stubEnv('RUNTIME_DIRECTORY', `${services}:/other`);
  const directory = `/${'d'.repeat(70)}`;
  expect(shortTemporary('job-1', directory.slice(0, 70))).toBe(directory.slice(0, 70));
  const short = shortTemporary('job-1', directory);
  expect([short, readlinkSync(short)]).toEqual([path.join(services, 'job-1'), directory]);
  // Of an earlier try for the same job.
  expect(shortTemporary('job-1', directory)).toBe(short);
  expect(shortTemporary('job-1', `${directory}x`)).toBe(`${directory}x`);
  removeShortTemporary('job-1');
  removeShortTemporary('job-1');
  expect(readdirSync(services)).toEqual([]);
  writeFileSync(path.join(services, 'job-2'), '');
  expect(shortTemporary('job-2', directory)).toBe(directory);
  removeShortTemporary('job-2');
  expect(existsSync(path.join(services, 'job-2'))).toBe(true);
  vi.stubEnv('RUNTIME_DIRECTORY', path.join(root, 'none'));
  expect(shortTemporary('job-1', directory)).toBe(directory);
});

test('An output pipe has no name while it is in use, and errors contain no path', async () => {
  const root = await place();
  // Of a runner that was killed.
  writeFileSync(outputFifo(root), '');
  const pipe = openOutputPipe(root);
  expect(readdirSync(root)).toEqual([]);
  let text = '';
  pipe.reader.on('data', (chunk) => {
    text += chunk;
  });
  writeSync(pipe.writeFd, 'printed');
  pipe.release();
  await once(pipe.reader, 'end');
  expect(text).toBe('printed');
  const fifo = path.join(root, 'fifo');
  makeFifo(fifo);
  const stats = lstatSync(fifo);
  expect([stats.isFIFO(), stats.mode & 0o777]).toEqual([true, 0o600]);
  expect(() => makeFifo(fifo)).toThrow(
    expect.objectContaining({ message: 'the pipe for the output could not be made: File exists' }),
  );
});

/** A process in a group of its own, which is ended after the test. */
async function running(
  script: string,
  environment: Readonly<Record<string, string>> = {},
  stdin: number | 'ignore' = 'ignore',
) {
  const child = spawn('sh', ['-c', script], {
    detached: true,
    stdio: [stdin, 'pipe', 'ignore'],
    env: { PATH: process.env.PATH, ...environment },
  });
  onTestFinished(() => {
    try {
      process.kill(-(child.pid ?? 0), 'SIGKILL');
    } catch {
      // It has ended.
    }
  });
  await once(child.stdout ?? child, 'data');
  return child;
}

test('A process is identified by its start time together with the boot', async () => {
  const child = await running('echo; exec sleep 100');
  const own = identify(child.pid ?? 0);
  expect(isAlive(own)).toBe(true);
  expect(isAlive({ ...own, boot: '' })).toBe(true);
  for (const other of [{ startTime: own.startTime + 1 }, { boot: 'another' }, { pid: 2 ** 22 + 1 }])
    expect(isAlive({ ...own, ...other })).toBe(false);
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(isAlive(own)).toBe(false);
});

test('The descendants of a process exclude the process itself, and those inside a sandbox exclude its first process', async () => {
  const child = await running('sh -c "sleep 100 & sleep 100 & echo; wait" & wait');
  const leader = child.pid ?? 0;
  await until('all run', () => descendantsOf(leader).length === 3);
  expect(processesInside(leader)).toHaveLength(2);
  expect(descendantsOf(leader)).toEqual(expect.arrayContaining(processesInside(leader)));
  expect(descendantsOf(leader)).not.toContain(leader);
});

test('The processes of a job are those that have its marker or its open pipe, or share a session with one that does', async () => {
  const root = await place();
  const id = `programs-test-${process.pid}`;
  const marked = await running('env -u REMOTE_APP_JOB_ID sleep 100 & echo; wait', { [jobMarker]: id });
  const other = await running('echo; exec sleep 100', { [jobMarker]: `${id}0` });
  const pipe = openSync(outputFifo(root), 'w');
  const writing = await running('echo; exec sleep 100', {}, pipe);
  closeSync(pipe);
  const found = await processesOfJob(id, outputFifo(root));
  expect([marked, other, writing].map(({ pid = 0 }) => found.includes(pid))).toEqual([true, false, true]);
  expect(found).toHaveLength(3);
  expect(await processesOfJob('no-such-job', outputFifo(root))).toEqual(
    expect.not.arrayContaining([marked.pid]),
  );
});

test('A process of a job is found even if it holds open a file with a path too long for the system to report', async () => {
  const root = await place();
  const id = `programs-test-long-${process.pid}`;
  // As deep as a shell goes, and then a file below.
  const deep = 'while mkdir $name && cd $name 2>&-; do :; done; exec 3>$name/$name';
  const script = `name=$(printf '%0200d'); ${deep}; cd '${root}'; rm -r $name; echo; exec sleep 100`;
  const { pid } = await running(`cd '${root}'; ${script}`, { [jobMarker]: id });
  expect(await processesOfJob(id, outputFifo(root))).toEqual([pid]);
});

test('Files that a job has removed but keeps open are counted once, and only on its own disk', async () => {
  const root = await place();
  const id = `programs-test-open-${process.pid}`;
  const script =
    'exec 5>gone 6>kept; head -c 1048576 /dev/zero >&5; head -c 1048576 /dev/zero >&6; rm gone; sleep 100 & echo; wait';
  await running(`cd '${root}'; ${script}`, { [jobMarker]: id });
  const bytes = await removedButOpen([id, id], root);
  expect(bytes).toBeGreaterThanOrEqual(1 << 20);
  expect(bytes).toBeLessThan(2 << 20);
  expect([
    await removedButOpen([id], '/proc'),
    await removedButOpen(['none'], root),
    await removedButOpen([id], `${root}/none`),
  ]).toEqual([0, 0, 0]);
});

const disk = smallDisk(1);

test.skipIf(disk === null)(
  'A log on a full disk counts its lost lines, and reports them once there is space',
  async () => {
    const file = path.join(disk ?? '', 'log');
    const filler = path.join(disk ?? '', 'filler');
    const log = new LogFile(file, 1 << 20);
    log.append(['first']);
    expect(() => writeFileSync(filler, Buffer.alloc(2 << 20))).toThrow(/ENOSPC/);
    log.append(['x'.repeat(8000), 'two']);
    log.append(['three'.repeat(2000)]);
    expect(log.lostLines).toBe(3);
    rmSync(filler);
    log.append(['last']);
    expect(log.lostLines).toBe(0);
    log.close();
    expect(readFileSync(file, 'utf8')).toBe(
      'first\n[remote-app] 3 lines could not be written here: no space left on device (ENOSPC)\nlast\n',
    );
  },
);
