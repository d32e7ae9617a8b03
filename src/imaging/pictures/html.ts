import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { access, mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { deflateRawSync } from 'node:zlib';
import { readVolume, type VolumeFile, writeNifti } from '@remote-app/volumes';
import { millilitresText } from '../../client/case/index.js';
import { UsageError } from '../../client/errors.js';
import type { CaseView, DrawnCase, PlaneView, SliceView } from './picture.js';
import { placeText, windowText } from './sheet.js';

/** With these, a hundred cases of noisy CT fit into 30 MB. */
export const pageDefaults = { slices: 7, maxPixels: 256 } as const;

/** JPEG quality of the slices. Noise takes most of the bytes: 85 would need a third more, and at 60 blocks become visible. */
const quality = 75;

/**
 * Maximum size in bytes of all volumes in a page together. A browser needs more than twice that in memory: the page holds the
 * volumes as base64, which is a third longer, and the viewer decodes them into a second copy.
 */
const maxVolumeBytes = 200_000_000;

export interface PageOptions {
  /** The heading of the page. */
  readonly title: string;
  /** Name of the file that the page saves marks to: `qc-marks.csv`. */
  readonly csvName: string;
  /** Whether the page carries the volumes themselves and NiiVue, which draws them. */
  readonly hasVolumes: boolean;
}

const root = new URL('../../..', import.meta.url);
const template = (name: string) => readFile(new URL(`templates/looking/${name}`, root), 'utf8');

/**
 * NiiVue as one script, with its licences. The build copies it from a development dependency: a runtime dependency would make
 * every installation 25 MB larger for a script of 2 MB, and a hospital's machine often cannot install packages later.
 */
const viewerFile = (name: string) => new URL(`dist/niivue/${name}`, root);

/** Escapes a text for use between tags and in attributes. */
const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

/** A script element with JSON, escaped so that no tag in the JSON can end it. */
const jsonBlock = (id: string, value: unknown): string => {
  const json = JSON.stringify(value).replace(
    /[<\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return `<script type="application/json" id="${id}">${json}</script>\n`;
};

const hashOf = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/**
 * Generates an HTML page for reviewing and marking cases, piece by piece. It is a single file that makes no request and contains
 * everything that it shows. Cases are read one at a time and not retained, so memory is bounded by one case. The bytes depend
 * only on the cases.
 * @throws UsageError before the page grows too large to be opened; VolumeError for volumes that cannot be read
 */
export async function* htmlPage(
  cases: AsyncIterable<DrawnCase> | Iterable<DrawnCase>,
  { title, csvName, hasVolumes }: PageOptions,
): AsyncGenerator<string, void, undefined> {
  const [markup, style, script] = await Promise.all(['page.html', 'page.css', 'page.js'].map(template));
  if (markup === undefined || style === undefined || script === undefined) return;
  const viewer = hasVolumes ? await readViewer() : null;
  const scripts = [script, ...(viewer ? [viewer.script] : [])].map(hashOf).join(' ');
  // Only these scripts, this style and pictures within the page are allowed.
  const policy = `default-src 'none'; img-src data:; style-src ${hashOf(style)}; script-src ${scripts}; ${
    viewer ? 'connect-src data: blob:; ' : ''
  }base-uri 'none'; form-action 'none'`;
  yield [
    '<!doctype html>',
    '<html lang="en">',
    '<meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="${escapeHtml(policy)}">`,
    '<meta name="viewport" content="width=device-width">',
    '<meta name="referrer" content="no-referrer">',
    `<title>${escapeHtml(title)}</title>`,
    `<style>${style}</style>`,
    markup,
  ].join('\n');

  const names: string[] = [];
  const failed: boolean[] = [];
  const identity = createHash('sha256');
  const budget = { left: maxVolumeBytes };
  const encode = await openJpegEncoder();
  for await (const each of cases) {
    const block = jsonBlock(`case-${names.length}`, await caseData(each, encode));
    identity.update(each.name).update(block);
    yield block;
    for (const [at, layer] of each.layers.entries()) {
      if (!viewer) continue;
      for (const kind of ['scan', 'mask'] as const) {
        const volume = layer[kind];
        if (volume === null) continue;
        yield `<script type="text/plain" id="${kind}-${names.length}-${at}">`;
        yield* packedVolume(volume, budget);
        yield '</script>\n';
      }
    }
    names.push(each.name);
    failed.push(each.status === 'failed');
  }
  if (names.length === 0) throw new RangeError('There is no case to make a page from.');
  // The browser stores marks under a hash of the page's content, so that marks of an earlier result do not appear on a new one.
  const id = identity.digest('hex').slice(0, 32);
  yield jsonBlock('page', { id, title, csvName, names, failed, hasVolumes });
  if (viewer) {
    yield `<script type="text/plain" id="licences">${viewer.licences}</script>\n`;
    yield `<script>${viewer.script}</script>\n`;
  }
  yield `<script>${script}</script>\n</html>\n`;
}

/** Encodes a slice as JPEG. */
type JpegEncoder = (slice: SliceView) => Promise<Buffer>;

const [grey, colours] = [1, 3] as const;
/** No chroma subsampling, which would fade contours of one pixel. */
const noSubsampling = { auto_subsample: false, chroma_subsample: 1 };

/** Opens MozJPEG's encoder. */
async function openJpegEncoder(): Promise<JpegEncoder> {
  const { default: encode, init } = await import('@jsquash/jpeg/encode.js');
  const program = createRequire(import.meta.url).resolve('@jsquash/jpeg/codec/enc/mozjpeg_enc.wasm');
  await init({ wasmBinary: await readFile(program) });
  return async ({ width, height, pixels, isColour }) => {
    const data = new Uint8ClampedArray(width * height * 4).fill(255);
    for (let at = 0; at < width * height; at += 1)
      for (let part = 0; part < 3; part += 1)
        data[at * 4 + part] = pixels[isColour ? at * 3 + part : at] as number;
    const colour = { color_space: isColour ? colours : grey, ...noSubsampling } as const;
    return Buffer.from(await encode({ width, height, data }, { quality, ...colour }));
  };
}

/** The pictures of a case, each once: layers on one scan share most of them. */
class Pictures {
  readonly all: string[] = [];
  readonly #known = new Map<string, number>();

  constructor(private readonly encode: JpegEncoder) {}

  /** Index of a slice's picture among all pictures. */
  async place(slice: SliceView): Promise<number> {
    const picture = (await this.encode(slice)).toString('base64');
    const known = this.#known.get(picture);
    if (known !== undefined) return known;
    this.#known.set(picture, this.all.length);
    return this.all.push(picture) - 1;
  }
}

/** The data of a case for the page's script. */
async function caseData({ layers, notes }: DrawnCase, encode: JpegEncoder) {
  const pictures = new Pictures(encode);
  const data = [];
  for (const { name, view } of layers) data.push({ name, ...(await layerData(view, pictures)) });
  return { notes, layers: data, pictures: pictures.all };
}

async function layerData(view: CaseView, pictures: Pictures) {
  const planes = [];
  for (const plane of view.planes) planes.push(await planeData(plane, pictures));
  const isMarked = view.planes.some(({ slices }) => slices.some(({ labels }) => labels !== null));
  return {
    pixel: view.pixel,
    window: windowText(view),
    // For the volume viewer, which draws the original values.
    ...(view.window?.isInverted && { isInverted: true }),
    notes: view.notes,
    labels: isMarked
      ? view.labels.map(({ name, value, colour, voxels, millilitres }) => ({
          name,
          value,
          colour,
          voxels,
          volume: millilitresText(millilitres),
        }))
      : null,
    planes,
  };
}

async function planeData(plane: PlaneView, pictures: Pictures) {
  const { slices, marks, best } = plane;
  const images = [];
  for (const slice of slices) images.push(await pictures.place(slice));
  const [first] = slices;
  return {
    marks,
    best,
    width: first?.width ?? 1,
    height: first?.height ?? 1,
    places: slices.map(({ position }) => placeText(plane, position)),
    images,
    labels: packedLabels(slices),
  };
}

/**
 * The labels of all slices of a plane in sequence, deflated. Pictures of contours would be larger, too thin or too thick at most
 * zoom levels, and could not hide single labels.
 */
function packedLabels(slices: readonly SliceView[]): string | null {
  if (slices.every(({ labels }) => labels === null)) return null;
  const all = slices.map(({ labels, width, height }) => labels ?? new Uint8Array(width * height));
  return deflateRawSync(Buffer.concat(all), { level: 9 }).toString('base64');
}

async function readViewer(): Promise<{ script: string; licences: string }> {
  const script = viewerFile('niivue.umd.js');
  try {
    await access(script);
  } catch {
    throw new UsageError(
      `${fileURLToPath(script)} is missing, which shows volumes: install remote-app again, or make the page without volumes`,
    );
  }
  const read = (file: URL) => readFile(file, 'utf8');
  return { script: await read(script), licences: await read(viewerFile('LICENCES.txt')) };
}

/** A volume as base64 of a packed NIfTI file. Other formats are converted, which holds the volume in memory. */
async function* packedVolume(volume: VolumeFile, budget: { left: number }): AsyncGenerator<string> {
  if (/\.nii\.gz$/i.test(volume.path)) {
    yield* base64Of(volume.path, budget);
    return;
  }
  const directory = await mkdtemp(path.join(tmpdir(), 'remote-app-page-'));
  try {
    const packed = path.join(directory, 'volume.nii.gz');
    await writeNifti(packed, await readVolume(volume));
    yield* base64Of(packed, budget);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function* base64Of(file: string, budget: { left: number }): AsyncGenerator<string> {
  budget.left -= (await stat(file)).size;
  if (budget.left < 0)
    throw new UsageError(
      `The volumes have more than ${maxVolumeBytes / 1e6} MB together, which browsers do not open: show fewer cases, or make the page without volumes`,
    );
  // A multiple of three bytes, so that the base64 pieces can be concatenated.
  for await (const chunk of createReadStream(file, { highWaterMark: 3 << 20 }))
    yield (chunk as Buffer).toString('base64');
}
