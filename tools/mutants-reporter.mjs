/** What `mutants.mjs` prints: each change that no test noticed, as soon as that is known, and figures at the end. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { declareClassPlugin, PluginKind } from '@stryker-mutator/api/plugin';

const oneLine = (text) => text.replace(/\s+/g, ' ').slice(0, 120);

/** The text that a change replaces; lines and columns are counted from 1. */
function replacedText(file, { start, end }) {
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .slice(start.line - 1, end.line);
  lines.push(lines.pop().slice(0, end.column - 1));
  return lines.join('\n').slice(start.column - 1);
}

class UnnoticedReporter {
  /** By file, how many changes have each outcome. */
  files = new Map();

  constructor() {
    process.on('exit', () => this.printFigures());
  }

  onMutationTestingPlanReady({ mutantPlans }) {
    const count = mutantPlans.filter(({ plan }) => plan === 'Run').length;
    console.log(`${count} changes are tried. Those that no test notices:`);
  }

  onMutantTested({ status, fileName, location, replacement }) {
    if (status === 'Ignored') return;
    const file = path.relative('', fileName);
    const counts = this.files.get(file) ?? {
      Killed: 0,
      Timeout: 0,
      Survived: 0,
      NoCoverage: 0,
      RuntimeError: 0,
    };
    this.files.set(file, { ...counts, [status]: counts[status] + 1 });
    if (status !== 'Survived') return;
    const [before, after] = [replacedText(fileName, location), replacement].map(oneLine);
    console.log(`${file}:${location.start.line}:${location.start.column}: ${before} -> ${after}`);
  }

  printFigures() {
    const sums = [0, 0, 0];
    const row = (name, [noticed, survived, unreached]) =>
      console.log(`${name}: ${noticed} noticed, ${survived} not noticed, ${unreached} not reached`);
    for (const [file, { Killed, Timeout, Survived, NoCoverage }] of [...this.files].sort()) {
      const figures = [Killed + Timeout, Survived, NoCoverage];
      row(file, figures);
      for (const [at, each] of figures.entries()) sums[at] += each;
    }
    row('All', sums);
  }
}

export const strykerPlugins = [declareClassPlugin(PluginKind.Reporter, 'unnoticed', UnnoticedReporter)];
