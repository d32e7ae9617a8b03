import { tmpdir } from 'node:os';
import { findSandbox, type Sandbox } from '../../src/server/sandbox/index.js';
import { skipped } from './needs.mjs';

const found = await findSandbox('auto', {
  binds: [],
  dataDirectory: tmpdir(),
  secretFiles: [],
  environment: process.env,
});

/** The sandbox of this machine, for jobs of tests; null where bubblewrap is missing or does not work. */
export const sandbox: Sandbox | null = found.sandbox;

if (found.sandbox === null) skipped('bwrap', found.problem);
