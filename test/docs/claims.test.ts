import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { packages, scans } from '../support/needs.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (name: string): string => readFileSync(`${root}${name}`, 'utf8');

/**
 * By page, then by the heading of a section: the first words of each item of a list, or what the section says, with the tests and
 * the families of the fault harness that hold it.
 */
const claims: Readonly<
  Record<string, Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>>
> = JSON.parse(read('test/docs/claims.json'));

const claimsOf = (page: string, heading: string): readonly string[] =>
  Object.keys(claims[page]?.[heading] ?? {});

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
  const all = Object.values(sections).flatMap((each) => Object.entries(each));

  test('The claims name only tests and fault families that exist', () => {
    const files = all.flatMap(([, holders]) => holders);
    expect(files.length).toBeGreaterThan(6);
    expect(files.filter((file) => !existsSync(`${root}${file}`))).toEqual([]);
  });

  test('Each claim names something that verifies it', () => {
    expect(all.filter(([, holders]) => holders.length === 0)).toEqual([]);
  });

  test('The claims name only sections that exist', () => {
    const headings = [...sectionsOf(page).keys()];
    expect(headings).toEqual(expect.arrayContaining(Object.keys(sections)));
  });
});

describe.each(['SECURITY.md', 'docs/sandbox.md', 'docs/hugging-face.md'])('%s', (page) => {
  const items = [...sectionsOf(page)].flatMap(([heading, text]) =>
    itemsOf(text).map((item) => ({ heading, item })),
  );

  test('Each list item has a claim', () => {
    const without = items.filter(
      ({ heading, item }) => !claimsOf(page, heading).some((claim) => item.startsWith(claim)),
    );
    expect(without).toEqual([]);
  });

  test('The page still contains each tested claim', () => {
    const gone = Object.keys(claims[page] ?? {}).flatMap((heading) =>
      claimsOf(page, heading).filter(
        (claim) => !items.some((each) => each.heading === heading && each.item.startsWith(claim)),
      ),
    );
    expect(gone).toEqual([]);
  });
});

test('SECURITY.md has more than fifty claims', () => {
  expect(Object.values(claims['SECURITY.md'] ?? {}).flatMap(Object.keys).length).toBeGreaterThan(50);
});

test.each(['docs/admin.md', 'docs/slurm.md'])('Each section of %s has a tested claim', (page) => {
  const headings = read(page).match(/^## .*$/gm) ?? [];
  expect(headings.length).toBeGreaterThan(8);
  const without = headings.filter((heading) => claimsOf(page, heading.slice(3)).length === 0);
  expect(without).toEqual([]);
});

test('CONTRIBUTING.md has the command that installs the tools that tests need', () => {
  const [, line = ''] = /^apt-get install (.*)$/m.exec(read('CONTRIBUTING.md')) ?? [];
  expect(line.split(' ')).toEqual(
    [...new Set([...Object.values(packages), ...Object.values(scans).map(({ from }) => from)])].sort(),
  );
});
