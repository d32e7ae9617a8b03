#!/usr/bin/env node
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { installMissing, whyNoCluster } from '../support/slurm/prerequisites.mjs';

// `npm run test:slurm`: installs what is missing, and runs the tests, or says why they are left out.
installMissing();
const why = whyNoCluster();
if (why !== null) {
  console.log(`skipped: ${why}`);
} else {
  const vitest = fileURLToPath(new URL('../../node_modules/vitest/vitest.mjs', import.meta.url));
  const words = [vitest, 'run', '--config', 'vitest.slurm.config.ts', ...process.argv.slice(2)];
  const child = spawn(process.execPath, words, { stdio: 'inherit' });
  // Ctrl-C reaches vitest too, which stops the cluster; this only waits for it.
  for (const name of ['SIGINT', 'SIGTERM']) process.on(name, () => {});
  child.once('exit', (code, signal) => {
    process.exitCode = code ?? (signal === null ? 0 : 1);
  });
}
