import { measureRow } from './support/measure-row.mjs';

/** Shares of a row's work, as multiples of the least: what the table measures is 16x. */
const steps = [
  [1 / 16, '1x'],
  [1 / 4, '4x'],
  [1, '16x'],
];

/**
 * A cost that grows as the work does has an exponent of 1. What is above this, and above what the yardstick does,
 * grows faster: by more than two measurements of the same thing differ.
 */
const tolerated = 1.25;

/** The power of the work with which a figure grows between two steps that are four times apart. */
const exponent = (from, to) => (from > 0 && to > 0 ? Math.log(to / from) / Math.log(4) : null);

const shown = (value, unit) =>
  value === null ? '-' : `${value < 10 ? value.toFixed(2) : value.toFixed(0)} ${unit}`;

const power = (value) => (value === null ? '-' : value.toFixed(2));

/** What one row costs at each step, and how that grows. */
async function grow(bench, row, say) {
  const figures = [];
  const yardsticks = [];
  const faults = [];
  for (const [scale, label] of steps) {
    const { figure, yardstick, fault, unit } = await measureRow(bench, row, scale);
    say(`${row.name} at ${label}: ${fault ?? shown(figure, unit)}`);
    figures.push(figure);
    yardsticks.push(yardstick);
    if (fault) faults.push(`${label}: ${fault}`);
  }
  const exponents = ([small, middle, large]) => [exponent(small, middle), exponent(middle, large)];
  const own = exponents(figures);
  const yardstick = exponents(yardsticks);
  // The last step counts: at the first one a fixed cost hides the growth.
  const isFaster = own[1] > Math.max(tolerated, (yardstick[1] ?? 0) + 0.15);
  return {
    name: row.name,
    what: row.what,
    unit: row.unit,
    figures,
    exponents: own,
    yardsticks,
    yardstickExponents: yardstick,
    growsFaster: isFaster,
    ...(faults.length > 0 ? { fault: faults.join('; ') } : {}),
  };
}

function formatGrowth(results) {
  const steep = ['1x to 4x', '4x to 16x', 'its yardstick'];
  const head = ['row', ...steps.map(([, label]) => label), ...steep, 'faster than the work', '16x is'];
  const rows = results.map((each) => [
    each.name,
    ...each.figures.map((figure) => shown(figure, each.unit)),
    ...each.exponents.map(power),
    power(each.yardstickExponents[1]),
    each.fault ?? (each.growsFaster ? 'YES' : 'no'),
    each.what,
  ]);
  const all = [head, head.map(() => '-'), ...rows];
  return all.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** Measures rows at a sixteenth, a quarter and the whole of their work, and prints how their figures grow. */
export async function growth(bench, rows, isJson, say) {
  const results = [];
  for (const row of rows.filter(({ grows }) => grows)) results.push(await grow(bench, row, say));
  process.stdout.write(`${isJson ? JSON.stringify(results, null, 2) : formatGrowth(results)}\n`);
}
