// @ts-check
import { fileURLToPath } from 'node:url';

/**
 * How a server of the built program is started and found. The classes that hold its process stay apart: the server of a
 * test fails the test by what it leaves behind (`test/support/server.ts`), that of the fault harness is killed and
 * started again, and reports a violation where it ends by itself (`test/faults/support/server.mjs`), and that of the bench
 * has the environment of a measurement, without imitations (`bench/support/server.mjs`).
 */

/** Imitations of the programs that a server runs: nvidia-smi. */
const programs = fileURLToPath(new URL('../fixtures/bin', import.meta.url));

/**
 * The arguments of `remote-app`, for a server on a free port, or on the one that the flags name.
 * @param {{ dataDirectory: string, apps: readonly string[], flags?: readonly string[] }} options
 */
export const serveWords = ({ dataDirectory, apps, flags = [] }) => [
  'serve',
  ...(flags.includes('--port') ? [] : ['--port', '0']),
  // Most test apps wait for files outside their own directories, which a sandbox would hide.
  ...(flags.includes('--sandbox') ? [] : ['--sandbox', 'off']),
  '--data-dir',
  dataDirectory,
  ...apps.flatMap((source) => ['--apps', source]),
  ...flags,
];

/**
 * The environment of a server, with only PATH from the environment of the tests.
 * @param {{ home: string, gpus?: number | undefined, token?: string | null }} options
 */
export const serverEnvironment = ({ home, gpus = 0, token = null }) => ({
  HOME: home,
  PATH: `${programs}:${process.env.PATH}`,
  FAKE_GPUS: String(gpus),
  // No test server asks the real hub; tests that need a hub name their own.
  HF_HUB_OFFLINE: '1',
  ...(token === null ? {} : { SERVICE_API_TOKEN: token }),
});

/**
 * The address that a server prints when it listens.
 * @param {string} stdout
 */
export const addressIn = (stdout) => /\bListening on (http:[^\s"]+)[\s"]/.exec(stdout)?.[1];

/**
 * Whether a process has ended, by itself or by a signal.
 * @param {{ exitCode: number | null, signalCode: string | null }} child
 */
export const hasEnded = ({ exitCode, signalCode }) => exitCode !== null || signalCode !== null;
