import path from 'node:path';
import { beginsAsMetaImage, beginsAsNifti, beginsAsNrrd } from '@remote-app/volumes/headers';
import { volumeSuffix } from '../../contract/index.js';
import { isPlaceholderName } from './placeholders.js';

/**
 * A known format. Files are recognised by content where possible, otherwise by name. A format of several files (`.hdr` and
 * `.img`) has an entry for each; volumes/headers knows which belong together.
 */
interface Format {
  readonly name: string;
  /** File extensions, in lower case. */
  readonly endings: readonly string[];
  /**
   * Extensions of files that are always whole volumes: no other file is sent with them, and they are never slices of a series.
   */
  readonly wholeEndings?: readonly string[];
  /** Recognises the format by the first bytes of a file, unpacked. */
  readonly begins?: (start: Buffer) => boolean;
  /**
   * A picture counts as a volume only if there is no other one, since screenshots and photographs often lie beside scans.
   */
  readonly isPicture?: boolean;
}

/** Returns a test for bytes that begin with one of these Latin-1 texts. */
export const startsWith =
  (...starts: readonly string[]) =>
  (bytes: Buffer): boolean =>
    starts.some((each) => bytes.toString('latin1', 0, each.length) === each);

const tiff = startsWith('II*\0', 'MM\0*', 'II+\0', 'MM\0+');

/** Possible magic numbers at the end of a GIPL header. */
const gipl = [0xefff_e9b0, 0x2ae3_89b8];

/** Whether bytes are the beginning of an MGH file: version 1, sizes, and a known type. */
export const beginsAsFreeSurfer = (start: Buffer): boolean =>
  start.length >= 284 &&
  start.readInt32BE(0) === 1 &&
  [4, 8, 12].every((at) => start.readUInt32BE(at) > 0 && start.readUInt32BE(at) < 0x1_0000) &&
  [0, 1, 3, 4, 10].includes(start.readInt32BE(20));

const formats: readonly Format[] = [
  { name: 'packed directory', endings: [volumeSuffix] },
  { name: 'NIfTI', endings: ['.nii', '.nii.gz'], wholeEndings: ['.nii', '.nii.gz'], begins: beginsAsNifti },
  { name: 'NIfTI or ANALYZE pair', endings: ['.hdr', '.hdr.gz', '.img', '.img.gz'] },
  {
    name: 'MetaImage',
    endings: ['.mha', '.mhd'],
    wholeEndings: ['.mha'],
    begins: beginsAsMetaImage,
  },
  { name: 'raw voxels', endings: ['.raw', '.raw.gz', '.zraw'] },
  { name: 'NRRD', endings: ['.nrrd', '.nhdr'], wholeEndings: ['.nrrd'], begins: beginsAsNrrd },
  {
    name: 'FreeSurfer',
    endings: ['.mgh', '.mgz', '.mgh.gz'],
    wholeEndings: ['.mgh', '.mgz'],
    begins: beginsAsFreeSurfer,
  },
  {
    name: 'MINC',
    endings: ['.mnc', '.mnc.gz'],
    wholeEndings: ['.mnc', '.mnc.gz'],
    begins: startsWith('CDF\u0001', 'CDF\u0002'),
  },
  {
    name: 'AFNI',
    endings: ['.head', '.brik', '.brik.gz', '.brik.bz2'],
    begins: (start) =>
      /^\s{0,8}type\s{0,8}=\s{0,8}(string|integer|float)-attribute/.test(start.toString('latin1', 0, 64)),
  },
  {
    name: 'Philips PAR/REC',
    endings: ['.par', '.rec'],
    begins: startsWith('# === DATA DESCRIPTION FILE'),
  },
  {
    name: 'GIPL',
    endings: ['.gipl', '.gipl.gz'],
    begins: (start) => start.length >= 256 && gipl.includes(start.readUInt32BE(252)),
  },
  { name: 'ECAT', endings: ['.v'], begins: startsWith('MATRIX7') },
  { name: 'HDF5', endings: ['.h5', '.hdf5', '.hdf', '.ims'], begins: startsWith('\u0089HDF\r\n') },
  {
    name: 'TIFF',
    endings: ['.tif', '.tiff', '.btf', '.svs', '.ndpi', '.scn', '.qptiff', '.lsm'],
    begins: tiff,
  },
  { name: 'microscopy', endings: ['.czi', '.lif', '.nd2', '.oib', '.oif', '.vsi', '.mrxs', '.bif'] },
  { name: 'VTK', endings: ['.vti', '.vtk'], begins: startsWith('# vtk DataFile') },
  { name: 'NumPy', endings: ['.npy', '.npz'], begins: startsWith('\u0093NUMPY') },
  {
    name: 'picture',
    endings: ['.png', '.jpg', '.jpeg', '.bmp', '.webp', '.gif'],
    begins: startsWith('\u0089PNG\r\n', '\u00ff\u00d8\u00ff', 'GIF8'),
    isPicture: true,
  },
];

const wholeEndings = formats.flatMap((format) => format.wholeEndings ?? []);

/** Whether a file is a whole volume, judging by its name. */
export const isWholeVolumeName = (name: string): boolean =>
  wholeEndings.some((ending) => name.toLowerCase().endsWith(ending));

/** DICOM, which is recognised by its content. */
export const dicom = 'DICOM';
/** A directory that is one volume. */
export const zarr = 'OME-Zarr';

const dicomEndings = ['.dcm', '.dicom', '.ima', '.dcm.gz'];

const byEnding: ReadonlyMap<string, Format> = new Map(
  formats.flatMap((format) => format.endings.map((ending) => [ending, format] as const)),
);

/** The extensions of a name, longest first: `.nii.gz` and `.gz`. */
function endingsOf(file: string): string[] {
  const parts = path.basename(file).toLowerCase().split('.').slice(1);
  return [parts.slice(-2), parts.slice(-1)].map((each) => `.${each.join('.')}`);
}

/** The format of a file by its name; null for DICOM and unknown formats. */
function formatByName(file: string): Format | null {
  for (const ending of endingsOf(file)) {
    const format = byEnding.get(ending);
    if (format) return format;
  }
  return null;
}

/** Whether a file is DICOM, judging by its name. */
export const hasDicomName = (file: string): boolean =>
  endingsOf(file).some((each) => dicomEndings.includes(each));

/** Whether a file holds voxels, judging by its name. */
export const isVolumeName = (name: string): boolean => {
  const format = formatByName(name);
  return (format !== null && !format.isPicture) || hasDicomName(name);
};

/** All extensions of volumes, longest first. */
const volumeEndings = [
  ...byEnding.keys(),
  ...dicomEndings,
  ...['.ome.zarr', '.zarr', '.ome.tif', '.ome.tiff'],
].sort((a, b) => b.length - a.length);

/** The name of a volume without its extension, which does not distinguish cases. */
export function withoutVolumeEnding(name: string): string {
  const lower = name.toLowerCase();
  const ending = volumeEndings.find((each) => lower.endsWith(each)) ?? '';
  return name.slice(0, name.length - ending.length);
}

/** The format of a file that is not DICOM; null if unknown. */
export const formatOf = (file: string, start: Buffer): Format | null =>
  formats.find(({ begins }) => begins?.(start)) ?? formatByName(file);

/** Whether the first bytes of a file, unpacked, are those of a volume other than DICOM. */
export const isVolumeContent = (start: Buffer): boolean => {
  const format = formats.find(({ begins }) => begins?.(start));
  return format !== undefined && !format.isPicture;
};

/** The name of a file's format, judging only by the file's name. */
export const formatNameOf = (file: string): string | null =>
  hasDicomName(file) ? dicom : (formatByName(file)?.name ?? null);

/**
 * Extensions of files that describe volumes or data sets, or belong to the viewer on a patient's disc. A set, because V8 would
 * take 2 ms at each start to compile this many words as a case-insensitive pattern.
 */
const sidecarEndings = new Set(
  'json bval bvec txt tsv csv md rst cff pdf doc docx xlsx htm html xml log md5 sha256 lut py inf ini exe dll bat lnk ico chm url'.split(
    ' ',
  ),
);

/** Names of such files without an extension, and of files that operating systems and DICOM leave in directories. */
const sidecarNames = 'readme changes changelog licence license dicomdir thumbs.db'.split(' ');

/** Whether a file accompanies volumes and is not one itself, judging by its name. */
export function isSidecar(file: string): boolean {
  const name = path
    .basename(file)
    .toLowerCase()
    .replace(/\.(tsv|csv|json|txt)\.gz$/, '.$1');
  const dot = name.lastIndexOf('.');
  return (dot >= 0 && sidecarEndings.has(name.slice(dot + 1))) || sidecarNames.includes(name);
}

/** Leftovers of operating systems and storage devices: recycle bins, previews, marks of downloads. */
const leftover =
  /^(#recycle|\$recycle\.bin|@eadir|lost\+found|system volume information|desktop\.ini|icon\r)$|:zone\.identifier$/i;

/** Whether a directory entry is hidden, or a leftover of an operating system. A placeholder for a file in iCloud is neither. */
export const isHidden = (name: string): boolean =>
  (name.startsWith('.') && !isPlaceholderName(name)) || leftover.test(name);

/** Whether a directory at the root of a BIDS data set holds no raw scans, but results, programs or stimuli. */
export const isBesideBidsData = (name: string): boolean =>
  ['derivatives', 'sourcedata', 'code', 'stimuli', 'phenotype'].includes(name);

/** Whether a directory is an OME-Zarr store by its name. */
export const hasZarrName = (directory: string): boolean => /\.zarr$/i.test(directory);
