import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { packages } from '../support/needs.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (name: string): string => readFileSync(`${root}${name}`, 'utf8');

/** The tests that a text names. */
const testsIn = (text: string): string[] =>
  [...text.matchAll(/`(test\/[^`]+)`/g)].map(([, name = '']) => name);
/** The families of the fault harness that a text names. */
const familiesIn = (text: string): string[] =>
  [...text.matchAll(/`faults: ([^`]+)`/g)].map(([, name = '']) => name);

describe.each(['SECURITY.md', 'docs/admin.md', 'docs/slurm.md'])('%s', (page) => {
  test('names only tests that there are', () => {
    const named = [...new Set(testsIn(read(page)))];
    expect(named.length).toBeGreaterThan(page === 'docs/slurm.md' ? 8 : 10);
    expect(named.filter((name) => !existsSync(`${root}${name}`))).toEqual([]);
  });

  test('names only families of faults that there are', () => {
    const families = familiesIn(read(page)).filter(
      (name) => !existsSync(`${root}faults/families/${name}.mjs`),
    );
    expect(families).toEqual([]);
  });
});

/** Items of lists, each with the lines that belong to it, by the heading above them. */
function itemsOf(page: string): { readonly heading: string; readonly item: string }[] {
  return page.split(/^#+ /m).flatMap((section) => {
    const [heading = '', ...lines] = section.split('\n');
    const items = lines.join('\n').match(/^- .*(?:\n {2}.*)*/gm) ?? [];
    return items.map((item) => ({ heading, item }));
  });
}

test('CONTRIBUTING.md has the line that installs the tools of tests', () => {
  const [, line = ''] = /^apt-get install (.*)$/m.exec(read('CONTRIBUTING.md')) ?? [];
  expect(line.split(' ')).toEqual([...new Set(Object.values(packages))].sort());
});

test('each claim in a list of SECURITY.md names what holds it', () => {
  const items = itemsOf(read('SECURITY.md'));
  expect(items.length).toBeGreaterThan(50);
  // That section names one test for all of its claims.
  const without = items.filter(
    ({ heading, item }) =>
      heading !== 'In its sandbox' && testsIn(item).length + familiesIn(item).length === 0,
  );
  expect(without).toEqual([]);
});

test.each(['docs/admin.md', 'docs/slurm.md'])(
  'each section of %s has a line in its table of tests',
  (page) => {
    const [text = '', table = ''] = read(page).split('## Which test holds what');
    const rows = [...table.matchAll(/^\| (.*?)[:.] .* \| (.*) \|$/gm)];
    const sections = [...text.matchAll(/^## (.*)$/gm)].map(([, heading = '']) => heading);
    expect(sections.length).toBeGreaterThan(8);
    for (const section of sections) {
      const of = rows.filter(([, start]) => section.startsWith(start ?? ' '));
      expect([section, of.length > 0], section).toEqual([section, true]);
    }
    for (const [row, , tests = ''] of rows) expect(testsIn(tests).length, row).toBeGreaterThan(0);
  },
);
