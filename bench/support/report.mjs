/** The figures as text. */

function amount(value, unit) {
  if (value === null || value === undefined) return '-';
  return `${Math.abs(value) < 10 ? value.toFixed(2) : value.toFixed(0)} ${unit}`;
}

/** A figure of ours, and of the yardstick where it has one. */
const pair = (values, unit) => (values ?? []).map((value) => amount(value, unit)).join(' / ') || '-';

const columns = {
  row: (result) => result.name,
  figure: (result) => amount(result.figure, result.unit),
  yardstick: (result) => amount(result.yardstick, result.unit),
  ratio: (result) => (result.ratio === null ? '-' : result.ratio.toFixed(2)),
  reach: (result) => result.reach,
  holds: (result) => (result.holds ? 'yes' : 'NO'),
  memory: (result) => pair(result.memory, 'MiB'),
  cpu: (result) => pair(result.cpu, 's'),
  'what, against what': (result) =>
    result.against === '-' ? result.what : `${result.what}; ${result.against}`,
};

/** A table in Markdown, its columns aligned, with the remarks below it. */
export function formatTable(results) {
  const cells = [
    Object.keys(columns),
    ...results.map((each) => Object.values(columns).map((cell) => cell(each))),
  ];
  const widths = cells[0].map((_, column) => Math.max(...cells.map((row) => row[column].length)));
  const line = (row) => `| ${row.map((cell, column) => cell.padEnd(widths[column])).join(' | ')} |`;
  const rule = `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`;
  const remarks = results.flatMap(({ name, fault, note }) =>
    [fault && `${name}: ${fault}`, note && `${name}: ${note}`].filter(Boolean),
  );
  return [line(cells[0]), rule, ...cells.slice(1).map(line), '', ...remarks].join('\n').trimEnd();
}
