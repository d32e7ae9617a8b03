/**
 * Looks for what tests don't notice: changes one condition, number or call of the sources at a time and runs the tests that
 * reach it. Prints each change with which all tests passed.
 *
 *   npm run mutants -- src/contract                      the tests of test/contract
 *   npm run mutants -- src/client/submit test/commands   other tests
 *   npm run mutants -- src/archive --minutes 5           stops after five minutes; 15 otherwise
 */
import { existsSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Stryker } from '@stryker-mutator/core';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { minutes: { type: 'string', default: '15' } },
});
const [source, ...tests] = positionals;
const top = /^(packages\/[^/]+\/)?src(?=\/|$)/;
if (!top.test(source ?? '') || !existsSync(source)) {
  console.error('Name the directory or file of sources to change: npm run mutants -- src/contract');
  process.exit(2);
}

const isDirectory = (name) => statSync(name, { throwIfNoEntry: false })?.isDirectory() ?? false;

/** The tests of a directory of src/ stand in that of the same name in test/, or in one above it. Null for those of all. */
function testsOf(name) {
  if (name === 'src') return null;
  const directory = name.replace(top, '$1test');
  return isDirectory(directory) ? directory : testsOf(path.dirname(name));
}

const chosen = tests.length > 0 ? tests : [testsOf(path.normalize(source).replace(/\/$/, ''))];
if (chosen.includes(null)) {
  console.error(`Say which tests to run as well: npm run mutants -- ${source} test/contract`);
  process.exit(2);
}
// Not by Stryker's option `testFiles`: with it, changes of what runs when a module is loaded are never made.
process.env.REMOTE_APP_MUTANTS_TESTS = JSON.stringify(
  chosen.map((each) => (isDirectory(each) ? `${each}/**/*.test.ts` : each)),
);

/** What a run that was stopped has left is removed by the next one. */
const tempDirName = '.cache/mutants';
rmSync(tempDirName, { recursive: true, force: true });
const stryker = new Stryker({
  mutate: [isDirectory(source) ? `${source}/**/*.ts` : source],
  testRunner: 'vitest',
  vitest: { configFile: 'vitest.mutants.config.ts', related: false },
  plugins: [
    '@stryker-mutator/vitest-runner',
    fileURLToPath(new URL('mutants-reporter.mjs', import.meta.url)),
  ],
  reporters: ['unnoticed'],
  // Tests load the built program, so the changed sources are built. NiiVue is copied with the other files.
  buildCommand: 'npm run compile --silent',
  disableTypeChecks: '{src,packages/*/src}/**/*.ts',
  // TypeScript 7 has none of the functions with which Stryker would rewrite it.
  tsconfigFile: 'none',
  ignorePatterns: ['dist/*', '!dist/niivue', '.cache', '.demo', 'Output'],
  tempDirName,
  cleanTempDir: 'always',
  coverageAnalysis: 'perTest',
  // Wording.
  mutator: { excludedMutations: ['StringLiteral'] },
  concurrency: 1,
  // On a busy machine a start alone takes seconds.
  timeoutMS: 30_000,
  logLevel: 'error',
});

const limit = setTimeout(() => {
  console.error(`Stopped after ${values.minutes} minutes.`);
  // Stryker's own way to stop: it ends what it started.
  process.kill(process.pid, 'SIGTERM');
}, Number(values.minutes) * 60_000);
await stryker.runMutationTest();
clearTimeout(limit);
