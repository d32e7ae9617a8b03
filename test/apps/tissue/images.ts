import { readFile } from 'node:fs/promises';
import path from 'node:path';

export interface Volume {
  imageType: { dimension: number; componentType: string; pixelType: string; components: number };
  name: string;
  size: number[];
  spacing: number[];
  origin: number[];
  direction: Float64Array;
  metadata: Map<string, string>;
  data: Uint8Array | Int16Array | Float32Array;
}

interface ImageIo {
  readImageNode(file: string): Promise<Volume>;
  writeImageNode(image: Volume, file: string, options: { useCompression: boolean }): Promise<void>;
}

interface DicomIo {
  readImageDicomFileSeriesNode(options: { inputImages: string[] }): Promise<{ outputImage: Volume }>;
}

// The package's `types` entry names a file that it does not contain, so it is imported by a name that TypeScript does not check.
const imageIo: string = '@itk-wasm/image-io';
const dicomIo: string = '@itk-wasm/dicom';

export async function readImage(...file: string[]): Promise<Volume> {
  const io = (await import(imageIo)) as ImageIo;
  return io.readImageNode(path.join(...file));
}

export async function readSeries(files: string[]): Promise<Volume> {
  const io = (await import(dicomIo)) as DicomIo;
  return (await io.readImageDicomFileSeriesNode({ inputImages: files })).outputImage;
}

/** Writes a volume made by hand; `given` replaces any part of it. */
export async function writeImage(
  file: string,
  data: Volume['data'],
  given: Partial<Volume> = {},
  components = 1,
  useCompression = true,
) {
  const io = (await import(imageIo)) as ImageIo;
  const componentType =
    data instanceof Uint8Array ? 'uint8' : data instanceof Int16Array ? 'int16' : 'float32';
  const image: Volume = {
    imageType: {
      dimension: 3,
      componentType,
      pixelType: components === 1 ? 'Scalar' : 'VariableLengthVector',
      components,
    },
    name: 'image',
    size: [4, 4, 4],
    spacing: [1, 1, 1],
    origin: [0, 0, 0],
    direction: Float64Array.from([1, 0, 0, 0, 1, 0, 0, 0, 1]),
    metadata: new Map(),
    data,
    ...given,
  };
  await io.writeImageNode(image, path.resolve(file), { useCompression });
}

/** Where the voxels lie, rounded to what a NIfTI header's 32-bit floats can hold. */
export function geometryOf({ size, spacing, origin, direction }: Volume) {
  const round = (values: Iterable<number>) =>
    Array.from(values, (value) => Math.round(value * 1e4) / 1e4 + 0);
  return {
    size: Array.from(size),
    spacing: round(spacing),
    origin: round(origin),
    direction: round(direction),
  };
}

export async function readJson<T>(...file: string[]): Promise<T> {
  return JSON.parse(await readFile(path.join(...file), 'utf8')) as T;
}
