import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { codeVariable } from './code-cache.js';

/** Runs before all tests; returns what runs after them. */
export default async function setUp(): Promise<() => Promise<void>> {
  const code = await mkdtemp(path.join(tmpdir(), 'remote-app-test-code-'));
  process.env[codeVariable] = code;
  // Node reads these certificates at each start, which takes longer than the start itself. The test processes inherit what is set here.
  delete process.env.NODE_EXTRA_CA_CERTS;
  return () => rm(code, { recursive: true, force: true });
}
