import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { codeVariable } from './code-cache.js';

/** Runs before all tests; returns what runs after them. */
export default async function setUp(): Promise<() => Promise<void>> {
  const code = await mkdtemp(path.join(tmpdir(), 'remote-app-test-code-'));
  process.env[codeVariable] = code;
  return () => rm(code, { recursive: true, force: true });
}
