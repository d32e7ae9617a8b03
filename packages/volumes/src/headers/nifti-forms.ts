import { type Affine, inverseOf } from '../volume.js';
import { unzippedIfPossible } from './dicom-start.js';
import { beginsAsNifti, type NiftiHeader, parseNiftiHeader } from './nifti-layout.js';

/** An affine in the units of the file. */
type Rows = readonly (readonly number[])[];

/** Whether an affine consists of numbers, and its axes span a space. */
export const isAffine = (rows: Rows): boolean =>
  rows.flat().every(Number.isFinite) && inverseOf(rows as unknown as Affine) !== null;

/** The affine of a header: from its sform, otherwise from its qform. `other` is the qform if there is a sform too. */
export function formsOf(header: NiftiHeader): { readonly placed?: Rows; readonly other?: Rows } {
  const { srows, sformCode, qformCode, quaternion, pixdim } = header;
  const forms = [
    ...(sformCode > 0 ? [[0, 4, 8].map((row) => srows.slice(row, row + 4))] : []),
    ...(qformCode > 0 ? [quaternionAffine(quaternion, pixdim)] : []),
  ];
  // Some programs set a code and write zeros.
  const [placed, other] = forms.filter(isAffine);
  return { ...(placed && { placed }), ...(other && { other }) };
}

/** The affine of a quaternion, by the standard's method 2. */
function quaternionAffine([b0 = 0, c0 = 0, d0 = 0, ...place]: readonly number[], pixdim: readonly number[]) {
  const squares = b0 ** 2 + c0 ** 2 + d0 ** 2;
  // In a rotation by 180 degrees the first component is 0, except for the rounding of the others.
  const isHalfTurn = 1 - squares < 1e-7;
  const [b = 0, c = 0, d = 0] = [b0, c0, d0].map((each) => each / (isHalfTurn ? Math.sqrt(squares) : 1));
  const a = isHalfTurn ? 0 : Math.sqrt(1 - squares);
  const [, x = 1, y = 1, depth = 1] = pixdim;
  // The third axis may be mirrored.
  const z = (pixdim[0] ?? 1) < 0 ? -depth : depth;
  const [px = 0, py = 0, pz = 0] = place;
  return [
    [(a * a + b * b - c * c - d * d) * x, 2 * (b * c - a * d) * y, 2 * (b * d + a * c) * z, px],
    [2 * (b * c + a * d) * x, (a * a + c * c - b * b - d * d) * y, 2 * (c * d - a * b) * z, py],
    [2 * (b * d - a * c) * x, 2 * (c * d + a * b) * y, (a * a + d * d - b * b - c * c) * z, pz],
  ];
}

/** Whether two affines disagree about left and right, along the axis that runs most from left to right. */
export function disagreeOnSides([one = []]: Rows, [other = []]: Rows): boolean {
  const lengths = one.slice(0, 3).map(Math.abs);
  const axis = lengths.indexOf(Math.max(...lengths));
  // Small values are ignored: their sign is determined by rounding.
  return (one[axis] ?? 0) * (other[axis] ?? 0) < -0.1 * (one[axis] ?? 0) ** 2;
}

/** The header of a NIfTI file, which may be packed; null for any other file. */
function headerIn(start: Buffer): NiftiHeader | null {
  const bytes = unzippedIfPossible(start);
  const header = beginsAsNifti(bytes) ? parseNiftiHeader(bytes) : null;
  return header?.isNifti ? header : null;
}

/** The remark about a file whose sform and qform disagree about left and right. */
export const contradictorySides = 'has an sform and a qform that contradict each other in left and right';

/**
 * What readers of a NIfTI file have to guess, as sentence endings that follow its name.
 * @param start the first bytes of the file, which may be packed
 */
export function guessesOnNifti(start: Buffer): string[] {
  const header = headerIn(start);
  if (!header) return [];
  const { placed, other } = formsOf(header);
  return [
    ...(placed && other && disagreeOnSides(placed, other) ? [contradictorySides] : []),
    ...(placed ? [] : ['has no orientation, so that left and right are a guess']),
    ...((header.units & 7) === 0 ? ['does not say its unit of length: millimetres are a guess'] : []),
  ];
}
