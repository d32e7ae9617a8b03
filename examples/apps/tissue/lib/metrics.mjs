import { countOverlap, dice } from './dice.mjs';
import { surfaceDistances } from './surface.mjs';

const LABELS = 256;

/** The percentile is part of the name: distances of different ones cannot be compared. */
const distanceName = (percentile) =>
  percentile === 100 ? 'hausdorff_mm' : `hausdorff${String(percentile).replace('.', '_')}_mm`;

/** The metrics of every label from 1 on that either volume has: `{ label: { dice, ... } }`. */
export function compareLabels(one, other, { size, spacing }, settings) {
  const millilitres = (spacing[0] * spacing[1] * spacing[2]) / 1000;
  const result = {};
  for (const [label, counts] of countOverlap(one, other, LABELS).entries()) {
    if (label === 0 || counts.one + counts.other === 0) continue;
    result[label] = {
      dice: dice(counts),
      volume_ml: counts.one * millilitres,
      truth_volume_ml: counts.other * millilitres,
      volume_similarity: 1 - Math.abs(counts.one - counts.other) / (counts.one + counts.other),
      ...(settings.surface_distance
        ? surfaceMetrics(one, other, label, { size, spacing }, settings.percentile)
        : {}),
    };
  }
  return result;
}

/** Both are null if one volume lacks the label: then there is no distance. */
function surfaceMetrics(one, other, label, geometry, percentile) {
  const distances = surfaceDistances(one, other, label, geometry);
  const distance = distanceName(percentile);
  if (distances === undefined) return { [distance]: null, mean_surface_mm: null };
  const [there, back] = distances.map((list) => list.sort());
  const at = (list) => list[Math.min(list.length - 1, Math.ceil((percentile / 100) * list.length) - 1)];
  const sum = (list) => list.reduce((total, value) => total + value, 0);
  return {
    [distance]: Math.max(at(there), at(back)),
    mean_surface_mm: (sum(there) + sum(back)) / (there.length + back.length),
  };
}

/** Mean, least and greatest of each metric over the cases: for each label, and for all labels together. */
export function summarise(cases) {
  const entries = cases.flatMap((labels) => Object.entries(labels));
  const names = [...new Set(entries.map(([label]) => label))].sort((a, b) => a - b);
  const summary = { all: describe(entries.map(([, metrics]) => metrics)), labels: {} };
  for (const name of names) {
    const metrics = entries.filter(([label]) => label === name).map(([, values]) => values);
    summary.labels[name] = { name: metrics[0].name, ...describe(metrics) };
  }
  return summary;
}

function describe(list) {
  const summary = {};
  for (const metric of new Set(list.flatMap(Object.keys))) {
    const values = list.map((metrics) => metrics[metric]).filter((value) => typeof value === 'number');
    if (values.length === 0) continue;
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    summary[metric] = { mean, min: Math.min(...values), max: Math.max(...values), count: values.length };
  }
  return summary;
}
