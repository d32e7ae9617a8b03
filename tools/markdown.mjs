/** The parts of Markdown that the generated pages consist of. */

export const row = (cells) => `| ${cells.join(' | ')} |`;

export const table = (heading, rows) =>
  [row(heading), row(heading.map(() => '---')), ...rows.map(row)].join('\n');

export const code = (text) => `\`${text}\``;

/** Text in the cell of a table. */
export const cell = (text) => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
