import type { VolumeFile } from '@remote-app/volumes';
import type { CaseView } from './picture.js';
import type { Cuts } from './planar.js';

/** Soft tissue, in HU. */
export const softTissue = { low: -160, high: 240 } as const;

/** Number of values sampled to find the range. */
const sampled = 100_000;

/** Fraction of the values clipped to black, and to white. */
const cutOff = 0.005;

/** Ranges in HU of air, and between air and tissue, where a CT has fewer values. */
const air = [-1100, -900] as const;
const between = [-700, -500] as const;

/** Minimum fraction of air in a CT, and maximum fraction below air, not counting the value outside the scanner's circle. */
const [minAir, maxBelow] = [0.03, 0.01];

/**
 * Whether values look like CT: many are air near -1000, few lie between air and tissue, and almost none below air. MR phase
 * values spread evenly from -4096 to 4095, and susceptibility values lie around 0.
 * @param sorted ascending
 */
function looksLikeCt(sorted: Float64Array): boolean {
  const lowest = sorted[0] ?? 0;
  // Scanners fill the area outside their circle with one low value.
  const padded = lowest < air[0] ? sorted.lastIndexOf(lowest) + 1 : 0;
  const inside = sorted.length - padded;
  const part = ([from, to]: readonly [number, number]) => {
    const at = (value: number) => {
      const index = sorted.findIndex((each) => each >= value);
      return index < 0 ? sorted.length : Math.max(index, padded);
    };
    return inside === 0 ? 0 : (at(to) - at(from)) / inside;
  };
  const [ofAir, below] = [part(air), part([Number.NEGATIVE_INFINITY, air[0]])];
  return ofAir >= minAir && below <= maxBelow && ofAir >= 2 * part(between) && (sorted.at(-1) ?? 0) > 0;
}

/** The values shown as black and white, and whether they are a guess. */
interface Chosen {
  readonly window: NonNullable<CaseView['window']>;
  readonly isGuess: boolean;
}

/**
 * The window of a scan: soft tissue for CT, otherwise the range of the values.
 * @param appUnit unit of the values, as the app names it
 */
export function windowOf(scan: VolumeFile, cuts: Cuts, appUnit: string | null): Chosen {
  const planes = cuts.flatMap((each) => [...each.values()]);
  const total = planes.reduce((sum, each) => sum + each.length, 0);
  const step = Math.max(1, Math.floor(total / sampled));
  const values: number[] = [];
  let next = 0;
  for (const plane of planes) {
    for (; next < plane.length; next += step) {
      const value = plane[next] as number;
      if (Number.isFinite(value)) values.push(value);
    }
    next -= plane.length;
  }
  const sorted = Float64Array.from(values).sort();
  const at = (part: number) => sorted[Math.round(part * (sorted.length - 1))] ?? 0;
  // What the file says takes precedence over what the app says.
  const unsaid = scan.modality === 'CT' ? 'HU' : scan.modality === null ? appUnit : null;
  const unit = scan.unit === undefined ? unsaid : scan.unit;
  const isGuess = unit === null && scan.modality === null && looksLikeCt(sorted);
  const chosen = (low: number, high: number): Chosen => ({
    window: { low, high, unit, ...(scan.isInverted && { isInverted: true }) },
    isGuess,
  });
  if (unit === 'HU' || isGuess) return chosen(softTissue.low, softTissue.high);
  const [low, high] = [at(cutOff), at(1 - cutOff)];
  if (high > low) return chosen(low, high);
  // Few voxels differ from the others, or none does.
  return at(1) > at(0) ? chosen(at(0), at(1)) : chosen(low - 1, high + 1);
}
