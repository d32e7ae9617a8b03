import { missingTools, run } from './command.mjs';

const rounded = (value) => (value === null ? null : Number(value.toPrecision(4)));

/** The result of a row that could not be measured. */
const failed = (row, fault) => ({
  ...heads(row),
  figure: null,
  yardstick: null,
  ratio: null,
  holds: false,
  fault,
});

const heads = (row) => ({
  name: row.name,
  what: row.what,
  against: row.yardstick,
  unit: row.unit,
  reach: row.reach.text,
});

/** Measures one row and judges it. A row that cannot be measured does not hold, and says why; the others go on. */
export async function measureRow(bench, row) {
  const missing = await missingTools(bench.workshop, row.tools ?? []);
  if (missing.length > 0) return failed(row, `${missing.join(' and ')} is not on this machine`);
  try {
    // What an earlier row has written would make this one wait for the disk.
    await run(bench.workshop, 'sync', []);
    const { figure, yardstick = null, fault = null, ...more } = await row.measure(bench);
    return {
      ...heads(row),
      figure: rounded(figure),
      yardstick: rounded(yardstick),
      ratio: yardstick === null ? null : rounded(figure / yardstick),
      holds: fault === null && row.reach.holds({ figure, yardstick }),
      ...more,
      ...(fault === null ? {} : { fault }),
    };
  } catch (cause) {
    if (bench.signal.aborted) throw cause;
    return failed(row, cause instanceof Error ? cause.message : String(cause));
  }
}
