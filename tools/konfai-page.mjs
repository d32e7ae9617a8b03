import { differencesPage } from '../test/konfai/differences/index.mjs';

/** The comment of docs/konfai.md below which the tables stand. */
const mark = /^<!-- from here on made .*-->$/m;

/**
 * The page for users of KonfAI, with the tables of what differs made anew.
 * @param {string} page as it is
 */
export function konfaiPage(page) {
  const found = mark.exec(page);
  if (!found) throw new Error('docs/konfai.md has lost the comment that says where its tables begin');
  return `${page.slice(0, found.index)}${found[0]}\n\n${differencesPage()}\n`;
}
