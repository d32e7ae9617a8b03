const mebibyte = 2 ** 20;

const units = {
  bytes: (value) => `${(value / mebibyte).toFixed(0)} MiB`,
  ms: (value) => `${value.toFixed(value < 100 ? 1 : 0)} ms`,
  count: (value) => String(value),
};

function rows(lines) {
  const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => line[column].length)));
  const cell = (text, column) => (column === 0 ? text.padEnd(widths[0]) : text.padStart(widths[column]));
  return lines.map((line) => line.map(cell).join('   ').trimEnd());
}

/** What a run ends with: kinds of fault, how many, violations, figures. */
export function table(contexts, figures) {
  const faults = contexts.flatMap(({ name, counts, violations }) => [
    [name, '', String(violations.length)],
    ...[...counts].map(([kind, count]) => [`  ${kind}`, String(count), '']),
  ]);
  const all = contexts.reduce((sum, { violations }) => sum + violations.length, 0);
  const lines = rows([['Kind of fault', 'How many', 'Violations'], ...faults, ['All', '', String(all)]]);
  const notes = contexts.flatMap(({ name, notes: own }) => own.map((note) => `${name}: ${note}`));
  const shown = [...figures].map(([name, { value, unit }]) => [name, units[unit](value)]);
  return [
    ...lines,
    '',
    ...rows([['Figure', 'Value'], ...shown]),
    ...(notes.length > 0 ? ['', ...notes] : []),
  ];
}
