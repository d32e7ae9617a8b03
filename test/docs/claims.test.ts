import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { packages, scans } from '../support/needs.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (name: string): string => readFileSync(`${root}${name}`, 'utf8');

/** What a page promises, and what holds it. */
interface Claim {
  /** The first words of an item of a list, or what a section says. */
  readonly claim: string;
  readonly tests?: readonly string[];
  /** Families of the fault harness. */
  readonly faults?: readonly string[];
}
/** By page, then by the heading of a section. */
const claims: Readonly<Record<string, Readonly<Record<string, readonly Claim[]>>>> = JSON.parse(
  read('test/docs/claims.json'),
);

/** A page's sections: the heading, and the text below it. */
function sectionsOf(page: string): Map<string, string> {
  const sections = read(page).split(/^##+ /m).slice(1);
  return new Map(
    sections.map((section) => {
      const [heading = '', ...lines] = section.split('\n');
      return [heading, lines.join('\n')];
    }),
  );
}

/** The items of the lists of a text, each on one line. */
const itemsOf = (text: string): string[] =>
  (text.match(/^- .*(?:\n {2}.*)*/gm) ?? []).map((item) => item.slice(2).replaceAll(/\n {2}/g, ' '));

describe.each(Object.entries(claims))('%s', (page, sections) => {
  const all = Object.values(sections).flat();

  test('It names only tests and fault families that exist', () => {
    const files = all.flatMap(({ tests = [], faults = [] }) => [
      ...tests,
      ...faults.map((name) => `test/faults/families/${name}.mjs`),
    ]);
    expect(files.length).toBeGreaterThan(6);
    expect(files.filter((file) => !existsSync(`${root}${file}`))).toEqual([]);
  });

  test('It names something that holds each claim', () => {
    expect(all.filter(({ tests = [], faults = [] }) => tests.length + faults.length === 0)).toEqual([]);
  });

  test('It has claims only for sections that exist', () => {
    const headings = [...sectionsOf(page).keys()];
    expect(headings).toEqual(expect.arrayContaining(Object.keys(sections)));
  });
});

describe.each(['SECURITY.md', 'docs/sandbox.md', 'docs/hugging-face.md'])('%s', (page) => {
  const items = [...sectionsOf(page)].flatMap(([heading, text]) =>
    itemsOf(text).map((item) => ({ heading, item })),
  );

  test('Each item of its lists has a claim', () => {
    const claimsOf = (heading: string): readonly Claim[] => claims[page]?.[heading] ?? [];
    const without = items.filter(
      ({ heading, item }) => !claimsOf(heading).some(({ claim }) => item.startsWith(claim)),
    );
    expect(without).toEqual([]);
  });

  test('It still says what the tests hold', () => {
    const gone = Object.entries(claims[page] ?? {}).flatMap(([heading, all]) =>
      all.filter(
        ({ claim }) => !items.some((each) => each.heading === heading && each.item.startsWith(claim)),
      ),
    );
    expect(gone).toEqual([]);
  });
});

test('SECURITY.md has more than fifty claims', () => {
  expect(Object.values(claims['SECURITY.md'] ?? {}).flat().length).toBeGreaterThan(50);
});

test.each(['docs/admin.md', 'docs/slurm.md'])('Each section of %s has a test', (page) => {
  const headings = read(page).match(/^## .*$/gm) ?? [];
  expect(headings.length).toBeGreaterThan(8);
  const without = headings.filter((heading) => !claims[page]?.[heading.slice(3)]?.length);
  expect(without).toEqual([]);
});

test('CONTRIBUTING.md has the line that installs the tools of tests', () => {
  const [, line = ''] = /^apt-get install (.*)$/m.exec(read('CONTRIBUTING.md')) ?? [];
  expect(line.split(' ')).toEqual(
    [...new Set([...Object.values(packages), ...Object.values(scans).map(({ from }) => from)])].sort(),
  );
});
