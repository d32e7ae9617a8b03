/** Endings of volumes, which do not tell cases apart. */
const volumeEnding =
  /\.((nii|img|hdr)(\.gz)?|mha|mhd|nrrd|nhdr|mgz|mgh|(ome\.)?(zarr|tiff?)|h5|hdf5|npy|npz|gipl|dcm|ima|dicom)$/i;

/** How far the texts are alike, counted in characters from their start. No number is split: `case1` and `case12` share `case`. */
function sharedStart(texts: readonly string[]): number {
  const [first = '', ...others] = texts;
  let shared = first.length;
  for (const other of others) {
    let at = 0;
    while (at < shared && other[at] === first[at]) at += 1;
    shared = at;
  }
  if (!texts.some((text) => /\d/.test(text[shared] ?? ''))) return shared;
  return first.slice(0, shared).replace(/\d+$/, '').length;
}

const reversed = (text: string): string => text.split('').reverse().join('');

/**
 * What tells the names of one group apart: each without the ending of a volume, and without what all have in common at their
 * start and end. `01` and `02` of `sub-01_seg.nii.gz` and `sub-02_seg.nii.gz`.
 */
export function keysOf(names: readonly string[]): string[] {
  const stems = names.map((name) => name.replace(volumeEnding, ''));
  const start = sharedStart(stems);
  const rests = stems.map((stem) => reversed(stem.slice(start)));
  const end = sharedStart(rests);
  return rests.map((rest) => reversed(rest.slice(end)));
}
