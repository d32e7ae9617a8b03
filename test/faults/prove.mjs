/**
 * Shows that the harness would notice: breaks a copy of the built product on purpose, in eight places, one at a
 * time, and lets the family that watches over that promise run on it. Exit code 0 says that each was noticed.
 */
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { product } from './support/server.mjs';

const harness = fileURLToPath(new URL('run.mjs', import.meta.url));

/** What is broken, in which file, how, and which family must notice it. Each `[what, by]` must be found in the built file. */
const breaks = [
  {
    name: 'A start removes the jobs that waited',
    file: 'dist/server/jobs/service.js',
    edits: [[/each\.kind === 'incoming'/, "$& || each.record?.state === 'waiting'"]],
    family: 'server-death',
    // Few jobs wait when the server is killed.
    rounds: 5,
  },
  {
    name: 'A refused upload forgets to give its place back',
    file: 'dist/server/jobs/admission.js',
    edits: [[/(this\.#uploading -= 1;\s*)allowed\.release\(\);/, '$1']],
    family: 'network',
  },
  {
    name: 'Idempotency-Key is dropped',
    file: 'dist/server/routes/submit.js',
    edits: [[/ctx\.get\(parameters\.idempotencyKey\.name\) \|\| null;/, 'null;']],
    family: 'network',
  },
  {
    name: 'The process is killed and not its group',
    file: 'dist/runner/terminate.js',
    edits: [
      [/signal\(-group, 'SIGTERM'\)/, "signal(group, 'SIGTERM')"],
      [/signal\(-group, 'SIGKILL'\)/, "signal(group, 'SIGKILL')"],
    ],
    family: 'runner-death',
  },
  {
    name: 'Extraction has no bound',
    file: 'dist/archive/extract.js',
    edits: [
      [/bytes > allowed/, 'false'],
      [/total \+ overhead > options\.maxBytes/, 'false'],
    ],
    family: 'input',
  },
  {
    name: 'A result gets its place before it is on the disk',
    file: 'dist/client/cohort/cohort-directory.js',
    edits: [[/await syncTree\(complete\);/g, ';']],
    family: 'power-cut',
    rounds: 10,
  },
  {
    name: 'A command does not know the jobs of the one before it',
    file: 'dist/client/cohort/cohort.js',
    edits: [
      [/this\.#known\.get\(name, key\)/, 'null'],
      [/many: \{\s+key,/, 'many: { key: String(Math.random()),'],
    ],
    family: 'cohort',
  },
  {
    name: 'The offset of an upload is told before its bytes are on the disk',
    file: 'dist/server/uploads/upload.js',
    edits: [[/await handle\.datasync\(\);/, ';']],
    family: 'power-cut',
    rounds: 10,
  },
];

/** A copy of the product, in a directory of its own, with this one thing broken. */
function brokenCopy(root, { file, edits }) {
  const copy = mkdtempSync(path.join(root, 'copy-'));
  for (const name of ['bin', 'dist', 'package.json', 'oclif.manifest.json']) {
    cpSync(path.join(product, name), path.join(copy, name), { recursive: true });
  }
  const target = path.join(copy, file);
  let source = readFileSync(target, 'utf8');
  for (const [what, by] of edits) {
    if (!what.test(source)) throw new Error(`${file} has no ${what}: this break must be written anew`);
    source = source.replace(what, by);
  }
  writeFileSync(target, source);
  return copy;
}

/** Runs one family on a product; resolves with its exit code and what it found. */
function runFamily(copy, { family, rounds = 1 }) {
  const words = ['--only', family, '--rounds', String(rounds), '--seed', '1'];
  const child = spawn(process.execPath, [harness, ...words], {
    env: { ...process.env, FAULTS_PRODUCT: copy },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.on('data', (chunk) => {
    stderr += chunk;
  });
  return new Promise((resolve) => {
    child.once('close', (code) => {
      const found = stderr.split('\n').filter((line) => line.includes('VIOLATION'));
      resolve({ code, found: found.map((line) => line.replace(/^.*?\] /, '')) });
    });
  });
}

// Below node_modules the copies find their packages without a link: a server whose packages are linked does not start.
const root = mkdtempSync(path.join(product, 'node_modules', '.prove-'));
let unnoticed = 0;
try {
  for (const each of breaks) {
    const { code, found } = await runFamily(brokenCopy(root, each), each);
    const isNoticed = code === 1 && found.length > 0;
    if (!isNoticed) unnoticed += 1;
    console.log(`${isNoticed ? 'noticed' : 'NOT NOTICED'}: ${each.name} (${each.file})`);
    console.log(`  ${each.family} ended with ${code} and ${found.length} violations, the first of them:`);
    for (const line of found.slice(0, 2)) console.log(`    ${line.slice(0, 400)}`);
  }
} finally {
  rmSync(root, { recursive: true, force: true });
}
process.exitCode = unnoticed === 0 ? 0 : 1;
