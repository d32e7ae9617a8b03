import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const inRoot = (file: string): string => path.join(root, file);
const pagesIn = (folder: string): string[] =>
  readdirSync(inRoot(folder))
    .filter((file) => file.endsWith('.md'))
    .map((file) => path.join(folder, file));

/** The anchor that GitHub gives to a heading. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');

const headingsOf = (file: string): string[] =>
  [...readFileSync(inRoot(file), 'utf8').matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    anchorOf(heading),
  );

describe.each(['.', 'docs', 'docs/architecture', 'bench'].flatMap(pagesIn))('%s', (page) => {
  const text = readFileSync(inRoot(page), 'utf8');

  test('The page links only to pages and sections that exist', () => {
    const links = [...text.matchAll(/\]\(([^)#\s:]*)(?:#([^)\s]+))?\)/g)];
    const broken = links.filter(([, file, anchor]) => {
      const target = file ? path.join(path.dirname(page), file) : page;
      if (!existsSync(inRoot(target))) return true;
      return anchor !== undefined && !headingsOf(target).includes(anchor);
    });
    expect(broken.map(([link]) => link)).toEqual([]);
  });
});

const pagesOfCode = ['ARCHITECTURE.md', 'CONTRIBUTING.md', 'SECURITY.md', 'bench/README.md'];

describe.each([...pagesOfCode, ...pagesIn('docs/architecture')])('%s', (page) => {
  test('The page names only files that exist', () => {
    const text = readFileSync(inRoot(page), 'utf8');
    const named = [...text.matchAll(/`((?:src|test|bench|tools|docs|engines|examples|bin)\/[^`\s]*)`/g)];
    expect(named.map(([, file = '']) => file).filter((file) => !existsSync(inRoot(file)))).toEqual([]);
  });
});
