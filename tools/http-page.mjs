import { routes } from '../dist/contract/index.js';
import { code, table } from './markdown.mjs';

/** The comment of docs/http.md below which the table of routes stands. */
const mark = /^<!-- from here on made .*-->$/m;

/**
 * The page of the HTTP interface, with the table of routes made anew.
 * @param {string} page as it is
 */
export function httpPage(page) {
  const found = mark.exec(page);
  if (!found) throw new Error('docs/http.md has lost the comment that says where its table begins');
  const rows = Object.values(routes).map(({ method, path, summary }) => [code(`${method} ${path}`), summary]);
  return `${page.slice(0, found.index)}${found[0]}\n\n## Routes\n\n${table(['route', 'what it is for'], rows)}\n`;
}
