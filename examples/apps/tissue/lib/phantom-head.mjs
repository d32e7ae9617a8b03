import { smooth } from './filters.mjs';
import { createRandom } from './random.mjs';

/** Labels of the phantom, which are the classes of the model. */
export const TISSUES = ['background', 'scalp', 'skull', 'grey', 'white', 'fluid'];

/** What is painted: a label, and a signal. Muscle shines unlike fat, but is labelled as part of the scalp. */
const MUSCLE = 6;
const LABEL_OF = [0, 1, 2, 3, 4, 5, 1];

/** Signal of each tissue and of muscle. `pd` resembles a proton-density MR image, the others are other settings. */
export const CONTRASTS = {
  pd: [10, 740, 90, 510, 440, 600, 400],
  t1: [10, 800, 90, 420, 560, 200, 350],
  t2: [10, 520, 60, 430, 320, 900, 200],
};

/**
 * The ellipsoids of a head after Shepp and Logan (1974), in units of half the field of view: half axes, centre and
 * tilt in degrees. Each is painted over the ones before it. y points to the back, z upwards.
 */
const ELLIPSOIDS = [
  { tissue: 1, axes: [0.69, 0.9, 0.88], centre: [0, 0, 0], tilt: 0 },
  { tissue: MUSCLE, axes: [0.12, 0.3, 0.3], centre: [0.57, -0.2, -0.1], tilt: 0 },
  { tissue: MUSCLE, axes: [0.12, 0.3, 0.3], centre: [-0.57, -0.2, -0.1], tilt: 0 },
  { tissue: MUSCLE, axes: [0.4, 0.16, 0.3], centre: [0, 0.68, -0.5], tilt: 0 },
  { tissue: 2, axes: [0.62, 0.83, 0.81], centre: [0, 0, 0], tilt: 0 },
  { tissue: 3, axes: [0.57, 0.78, 0.76], centre: [0, 0.01, 0], tilt: 0 },
  { tissue: 4, axes: [0.46, 0.66, 0.62], centre: [0, 0.02, 0], tilt: 0, folds: true },
  { tissue: 5, axes: [0.1, 0.3, 0.22], centre: [0.17, 0, 0.03], tilt: -14 },
  { tissue: 5, axes: [0.12, 0.36, 0.24], centre: [-0.17, 0, 0.03], tilt: 14 },
  { tissue: 3, axes: [0.18, 0.14, 0.2], centre: [0, -0.34, -0.05], tilt: 0 },
  { tissue: 3, axes: [0.12, 0.1, 0.14], centre: [0, 0.44, -0.2], tilt: 0 },
];

/** A random head: `{ size, spacing, affine, data, labels }`. The same arguments give the same head. */
export function createPhantom({ seed, size, spacing, contrast = 'pd', noise = 0.04, bias = 0.15 }) {
  const random = createRandom(seed);
  const pose = createPose(random);
  const origin = size.map((count, axis) => (-(count - 1) / 2) * spacing[axis]);
  const painted = paintHead(size, spacing, origin, pose);
  const labels = painted.map((tissue) => LABEL_OF[tissue]);
  const signal = CONTRASTS[contrast].map((value) => value * random.between(0.97, 1.03));
  const blur = random.between(0.6, 1.4);
  const clean = smooth(
    Float32Array.from(painted, (tissue) => signal[tissue]),
    size,
    spacing.map((step) => blur / step),
  );
  const data = addScanner(clean, size, signal[3], { noise, bias }, random);
  // x and y run to the left and to the back, and an affine counts to the right and to the front.
  const affine = [-1, -1, 1].map((sign, row) => [
    ...spacing.map((step, axis) => (axis === row ? sign * step : 0)),
    sign * origin[row],
  ]);
  return { size, spacing, affine, data, labels };
}

const HALF_FIELD_MM = 110;

function createPose(random) {
  const angle = (degrees) => (random.between(-degrees, degrees) * Math.PI) / 180;
  const ellipsoids = ELLIPSOIDS.map(({ tissue, axes, centre, tilt, folds }) => ({
    tissue,
    axes: axes.map((half) => half * random.between(0.97, 1.03)),
    centre: centre.map((value) => value + random.between(-0.01, 0.01)),
    tilt: (tilt * Math.PI) / 180,
    folds: folds
      ? { depth: random.between(0.06, 0.12), count: 7 + random.below(4), phase: random.between(0, 6) }
      : undefined,
  }));
  return {
    ellipsoids,
    turn: angle(8),
    nod: angle(6),
    scale: random.between(0.92, 1.05),
    shift: [0, 1, 2].map(() => random.between(-5, 5)),
  };
}

function paintHead(size, spacing, origin, { ellipsoids, turn, nod, scale, shift }) {
  const painted = new Uint8Array(size[0] * size[1] * size[2]);
  const unit = HALF_FIELD_MM * scale;
  for (let z = 0, at = 0; z < size[2]; z += 1) {
    const w = (origin[2] + z * spacing[2] - shift[2]) / unit;
    for (let y = 0; y < size[1]; y += 1) {
      const v = (origin[1] + y * spacing[1] - shift[1]) / unit;
      for (let x = 0; x < size[0]; x += 1, at += 1) {
        const u = (origin[0] + x * spacing[0] - shift[0]) / unit;
        const turned = v * Math.cos(turn) - u * Math.sin(turn);
        const point = [
          u * Math.cos(turn) + v * Math.sin(turn),
          turned * Math.cos(nod) - w * Math.sin(nod),
          turned * Math.sin(nod) + w * Math.cos(nod),
        ];
        for (const ellipsoid of ellipsoids) if (isInside(ellipsoid, point)) painted[at] = ellipsoid.tissue;
      }
    }
  }
  return painted;
}

function isInside({ axes, centre, tilt, folds }, point) {
  const [u, v, w] = point.map((value, axis) => value - centre[axis]);
  const a = (u * Math.cos(tilt) + v * Math.sin(tilt)) / axes[0];
  const b = (v * Math.cos(tilt) - u * Math.sin(tilt)) / axes[1];
  const c = w / axes[2];
  const radius = Math.sqrt(a * a + b * b + c * c);
  if (folds === undefined || radius < 0.5) return radius <= 1;
  // Folds of the cortex: the surface waves with the direction seen from the centre.
  const wave =
    Math.sin(folds.count * Math.atan2(b, a) + folds.phase) *
    Math.cos(folds.count * Math.asin(Math.max(-1, Math.min(1, c / radius))));
  return radius <= 1 + folds.depth * wave;
}

/** A smooth shading over the volume and noise, both in parts of the brain's signal; never below zero. */
function addScanner(clean, size, brain, { noise, bias }, random) {
  const slope = [0, 1, 2].map(() => random.between(-bias, bias));
  const data = new Int16Array(clean.length);
  for (let z = 0, at = 0; z < size[2]; z += 1) {
    for (let y = 0; y < size[1]; y += 1) {
      for (let x = 0; x < size[0]; x += 1, at += 1) {
        const shading =
          1 +
          slope[0] * (x / size[0] - 0.5) +
          slope[1] * (y / size[1] - 0.5) +
          slope[2] * (z / size[2] - 0.5);
        data[at] = Math.round(Math.abs(clean[at] * shading + random.normal() * noise * brain));
      }
    }
  }
  return data;
}
