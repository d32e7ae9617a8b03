import { countOverlap, dice } from './dice.mjs';
import { surfaceDistances } from './surface.mjs';

const LABELS = 256;
const METRICS = [
  'dice',
  'volume_ml',
  'truth_volume_ml',
  'volume_similarity',
  'hausdorff_mm',
  'mean_surface_mm',
];

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
  if (distances === undefined) return { hausdorff_mm: null, mean_surface_mm: null };
  const [there, back] = distances.map((list) => list.sort());
  const at = (list) => list[Math.min(list.length - 1, Math.ceil((percentile / 100) * list.length) - 1)];
  const sum = (list) => list.reduce((total, value) => total + value, 0);
  return {
    hausdorff_mm: Math.max(at(there), at(back)),
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
  for (const metric of METRICS) {
    const values = list.map((metrics) => metrics[metric]).filter((value) => typeof value === 'number');
    if (values.length === 0) continue;
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    summary[metric] = { mean, min: Math.min(...values), max: Math.max(...values), count: values.length };
  }
  return summary;
}
