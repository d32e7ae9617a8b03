/** A colour in CIELab as DICOM encodes it: L, a and b from 0 to 65535, with the white point D50 (PS3.3, C.10.7.1.1). */
export type CieLab = readonly [l: number, a: number, b: number];

/** X and Z of the white point D50. */
const [whiteX, whiteZ] = [0.96422, 0.82521];

const bend = 6 / 29;

/** Red, green and blue from 0 to 1 as `#rrggbb`. */
export const hexOf = (parts: readonly number[]): string =>
  `#${parts
    .map((part) =>
      Math.round(255 * part)
        .toString(16)
        .padStart(2, '0'),
    )
    .join('')}`;

/** Converts to `#rrggbb`. */
export function hexOfCieLab([storedL, storedA, storedB]: CieLab): string {
  const [l, a, b] = [(storedL * 100) / 65535, (storedA * 255) / 65535 - 128, (storedB * 255) / 65535 - 128];
  const y = (l + 16) / 116;
  const linear = (value: number) => (value > bend ? value ** 3 : 3 * bend ** 2 * (value - 4 / 29));
  const [x50, y50, z50] = [whiteX * linear(y + a / 500), linear(y), whiteZ * linear(y - b / 200)];
  // From XYZ with D50 to linear sRGB with D65 (Bradford).
  const rgb = [
    3.1338561 * x50 - 1.6168667 * y50 - 0.4906146 * z50,
    -0.9787684 * x50 + 1.9161415 * y50 + 0.033454 * z50,
    0.0719453 * x50 - 0.2289914 * y50 + 1.4052427 * z50,
  ];
  const parts = rgb.map((value) => {
    const part = Math.min(1, Math.max(0, value));
    return part <= 0.0031308 ? 12.92 * part : 1.055 * part ** (1 / 2.4) - 0.055;
  });
  return hexOf(parts);
}

/** Converts from `#rrggbb`; null for any other text. */
export function cieLabOf(hex: string): CieLab | null {
  const digits = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(hex)?.slice(1);
  if (!digits) return null;
  const [r = 0, g = 0, b = 0] = digits.map((each) => {
    const part = Number.parseInt(each, 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  const bent = (value: number) => (value > bend ** 3 ? Math.cbrt(value) : value / (3 * bend ** 2) + 4 / 29);
  const x = bent((0.4360747 * r + 0.3850649 * g + 0.1430804 * b) / whiteX);
  const y = bent(0.2225045 * r + 0.7168786 * g + 0.0606169 * b);
  const z = bent((0.0139322 * r + 0.0971045 * g + 0.7141733 * b) / whiteZ);
  return [
    Math.round(((116 * y - 16) * 65535) / 100),
    Math.round(((500 * (x - y) + 128) * 65535) / 255),
    Math.round(((200 * (y - z) + 128) * 65535) / 255),
  ];
}
