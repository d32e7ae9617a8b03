import { findSandbox } from '../../src/server/sandbox/find-sandbox.js';
import type { Sandbox } from '../../src/server/sandbox/sandbox.js';

const found = await findSandbox('auto', { binds: [], dataDirectory: '/nowhere', secretFiles: [] });

/** The sandbox of this machine, for jobs of tests; null where bubblewrap is missing or does not work. */
export const sandbox: Sandbox | null = found.sandbox;

// What a run leaves out is said: its other tests would look as if they had covered this.
if (found.sandbox === null) console.warn(`Tests of the sandbox are left out: ${found.problem}`);
