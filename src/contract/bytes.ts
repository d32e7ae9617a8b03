const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** Bytes as a person reads them, in powers of 1024. */
export function formatBytes(bytes: number): string {
  const step = bytes < 1024 ? 0 : Math.min(Math.floor(Math.log2(bytes) / 10), units.length - 1);
  const value = bytes / 1024 ** step;
  return `${step === 0 ? value : value.toFixed(1)} ${units[step]}`;
}
