import { createWriteStream } from 'node:fs';
import { readFile, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { pathToFileURL } from 'node:url';
import { openVolume, readVolume, writeNifti } from '@remote-app/volumes';
import { decode } from 'fast-png';
import { type Browser, chromium, type Locator, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { millilitresText } from '../../../src/client/case/index.js';
import { htmlPage } from '../../../src/imaging/pictures/html.js';
import type { DrawnCase, LayerView } from '../../../src/imaging/pictures/picture.js';
import { straight } from '../../support/affine.js';
import { readJpeg } from '../../support/jpeg.js';
import { lacks, placesOf } from '../../support/needs.mjs';
import { temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';
import { layouts, phantom, viewOf as viewCase, volumeOf } from './phantom.js';

const names = { title: 'qc.html', csvName: 'qc-marks.csv' };
/** Each slice of a plane is a picture of its own, which takes time. */
const options = { slices: 1, maxPixels: 128 };
const usual = layouts[0] ?? [];
const viewOf = (sampling: Parameters<typeof phantom>[0], name = 'phantom', slices = 1) =>
  viewCase({ name, ...phantom(sampling) }, { ...options, slices });

/** A case of one layer. */
type OneView = Pick<LayerView, 'view'> & Partial<LayerView>;

const asCase = (each: DrawnCase | OneView): DrawnCase =>
  'layers' in each
    ? each
    : {
        ...{ name: each.view.name, notes: [], status: null },
        layers: [{ name: 'mask', scan: null, mask: null, ...each }],
      };

const pageOf = (cases: Iterable<DrawnCase | OneView>, hasVolumes = false) =>
  htmlPage([...cases].map(asCase), { ...names, hasVolumes });

const textOf = async (cases: Iterable<DrawnCase | OneView>) => {
  let text = '';
  for await (const piece of pageOf(cases)) text += piece;
  return text;
};

const samplings = [
  { title: 'isotropic', spacing: [2, 2, 2] },
  { title: 'anisotropic', spacing: [1, 2, 4] },
  { title: 'oblique', spacing: [2, 1, 4], turned: 20 },
] as const;

/** What the script of a page is given of its first case. */
const caseIn = (page: string) => JSON.parse(/id="case-0">(.*)<\/script>/.exec(page)?.[1] ?? '');

test('Labels are shown with their voxels and their millilitres', async () => {
  const data = Uint8Array.from({ length: 16 ** 3 }, (_, at) => (at < 1956 ? 1 : at < 2000 ? 2 : 0));
  const spaced = (x: number, y: number, z: number) =>
    ({
      affine: straight([x, y, z]),
    }) as const;
  const labelsOf = async (voxel: ReturnType<typeof spaced>) => {
    const [scan, mask] = [new Uint8Array(16 ** 3), data].map((each) => volumeOf(each, [16, 16, 16], voxel));
    if (!scan || !mask) throw new Error('There is no volume.');
    const view = await viewCase({ name: 'case', scan, mask }, { slices: 1, maxPixels: 16 });
    return caseIn(await textOf([{ view }])).layers[0].labels;
  };
  expect(await labelsOf(spaced(10, 10, 10))).toMatchObject([
    { name: 'label 1', value: 1, voxels: 1956, volume: '1956 ml' },
    { name: 'label 2', value: 2, voxels: 44, volume: '44 ml' },
  ]);
  expect(await labelsOf(spaced(1, 0.5, 4))).toMatchObject([
    { voxels: 1956, volume: '3.91 ml' },
    { voxels: 44, volume: '0.088 ml' },
  ]);
});

test('Colour slices keep their colours', async () => {
  const data = Uint8Array.from({ length: 16 * 16 * 3 }, (_, at) => [200, 40, 90][at % 3] ?? 0);
  const scan = volumeOf(data, [16, 16, 1], { components: 3 });
  const page = await textOf([{ view: await viewCase({ name: 'colour', scan, mask: null }, options) }]);
  const { layers, pictures } = caseIn(page);
  const [image] = layers[0].planes[0].images;
  const { data: pixels } = await readJpeg(Buffer.from(pictures[image], 'base64'));
  [200, 40, 90].forEach((part, at) => {
    expect(Math.abs((pixels[at] ?? 0) - part)).toBeLessThan(8);
  });
});

test('Volumes that browsers do not open together are refused, and so is a page without a case', async () => {
  await using place = await temporary();
  const large = volumeOf(new Uint8Array(1), [1, 1, 1], { path: path.join(place.path, 'large.nii.gz') });
  await writeFile(large.path, '');
  await truncate(large.path, 200_000_001);
  const view = await viewOf({ layout: usual, spacing: [4, 4, 4] });
  const page = pageOf([{ view, scan: large }], true);
  const written = pipeline(page, async (pieces) => {
    for await (const _piece of pieces);
  });
  await expect(written).rejects.toThrow(
    'The volumes have more than 200 MB together, which browsers do not open: show fewer cases, or make the page without volumes',
  );
  await expect(textOf([])).rejects.toThrow('There is no case to make a page from.');
});

test('A page of another result has another identity, so that marks of the earlier one do not appear on it', async () => {
  const idOf = async (voxels: number) => {
    const data = [new Uint8Array(64), new Uint8Array(64).fill(1, 0, voxels)];
    const [scan, mask] = data.map((each) => volumeOf(each, [4, 4, 4]));
    if (!scan || !mask) throw new Error('There is no volume.');
    const view = await viewCase({ name: 'case', scan, mask }, { slices: 1, maxPixels: 4 });
    const page = await textOf([{ view }]);
    return JSON.parse(/id="page">(.*)<\/script>/.exec(page)?.[1] ?? '').id;
  };
  const first = await idOf(8);
  expect(await idOf(8)).toBe(first);
  expect(await idOf(9)).not.toBe(first);
});

describe.skipIf(lacks('chromium'))('in a browser', () => {
  let browser: Browser;
  /** The page of nearly all tests: a new one takes five times as long as another document in it. */
  let shared: Page;
  beforeAll(async () => {
    const [executablePath = ''] = placesOf('chromium');
    // Chromium has no sandbox for root.
    const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
    browser = await chromium.launch({ executablePath, args: [...args, '--disable-gpu-compositing'] });
    shared = await browser.newPage();
  });
  afterAll(() => browser.close());

  /** Whatever a page tries that it must not: requests that leave the file, errors and dialogs. */
  function watched(page: Page): string[] {
    const trouble: string[] = [];
    page.on('request', (request) => {
      if (!/^(file|data|blob):/.test(request.url())) trouble.push(`requested ${request.url()}`);
    });
    page.on('pageerror', (error) => trouble.push(String(error)));
    page.on('console', (message) => {
      if (message.type() === 'error') trouble.push(message.text());
    });
    page.on('dialog', (dialog) => {
      trouble.push(`asked ${dialog.message()}`);
      void dialog.dismiss();
    });
    return trouble;
  }

  /** Writes a page, and opens it: in a profile of its own where the test is about what is stored. A script runs before those of the page. */
  async function open(
    cases: Iterable<DrawnCase | OneView>,
    { hasVolumes = false, hasOwnProfile = false, script = '' } = {},
  ) {
    const place = await temporary();
    const page = hasOwnProfile ? await browser.newPage() : shared;
    await page.setViewportSize({ width: 1280, height: 800 });
    const trouble = watched(page);
    if (script) await page.addInitScript(script);
    const file = path.join(place.path, 'qc.html');
    await pipeline(Readable.from(pageOf(cases, hasVolumes)), createWriteStream(file));
    await page.goto(pathToFileURL(file).href);
    await drawn(page);
    return {
      page,
      trouble,
      async [Symbol.asyncDispose]() {
        page.removeAllListeners();
        if (hasOwnProfile) await page.close();
        await place[Symbol.asyncDispose]();
      },
    };
  }

  /** Waits until all pictures of a case are decoded, and then for what draws them: a frame. */
  async function drawn(page: Page): Promise<void> {
    await page.locator('#grid[aria-busy="false"]').waitFor();
    await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
  }

  async function saved(page: Page, act: () => Promise<void>): Promise<string> {
    const [download] = await Promise.all([page.waitForEvent('download'), act()]);
    expect(download.suggestedFilename()).toBe('qc-marks.csv');
    return readFile(await download.path(), 'utf8');
  }

  const times = (csv: string) => csv.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME');

  test('The marker of a phantom is on the side that the letters name, whatever its voxels are', async () => {
    const views = await Promise.all(
      samplings.map(({ title, ...sampling }) => viewOf({ layout: usual, ...sampling }, title)),
    );
    await using opened = await open(views.map((view) => ({ view })));
    const { page, trouble } = opened;
    // 14 of 80 mm to the right, 16 of 96 mm to the front, 8 of 64 mm upwards.
    const [right, front, up] = [14 / 80, 16 / 96, 8 / 64];
    for (const view of views) {
      expect(await page.locator('#name').textContent()).toBe(view.name);
      for (const [plane, x, y, letters] of [
        ['axial', right, front, 'RLAP'],
        ['coronal', right, up, 'RLSI'],
        ['sagittal', front, up, 'APSI'],
      ] as const) {
        const panel = page.locator(`[data-plane=${plane}]`);
        const marks = panel.locator('.mark');
        expect((await marks.allTextContents()).join('')).toBe(letters);
        const [left, right, top, bottom] = await Promise.all(
          (await marks.all()).map(async (mark) => (await mark.boundingBox()) ?? { x: 0, y: 0 }),
        );
        expect(left?.x).toBeLessThan(right?.x ?? 0);
        expect(top?.y).toBeLessThan(bottom?.y ?? 0);
        const size = view.planes.find(({ name }) => name === plane)?.slices[0];
        const picture = await pictureOf(panel);
        const fit = Math.min(picture.width / (size?.width ?? 1), picture.height / (size?.height ?? 1));
        const contour = middleOf(picture, view.labels[1]?.colour);
        expect(contour.count).toBeGreaterThan(50);
        const [across, down] = [fit * (size?.width ?? 1), fit * (size?.height ?? 1)];
        expect(Math.abs(contour.x - (picture.width / 2 - x * across))).toBeLessThan(fit * 1.5);
        expect(Math.abs(contour.y - (picture.height / 2 - y * down))).toBeLessThan(fit * 1.5);
        // A contour of the head, and nothing of its label in the middle of it.
        const head = middleOf(picture, view.labels[0]?.colour);
        expect(Math.abs((head.left + head.right) / 2 - picture.width / 2)).toBeLessThan(fit * 1.5);
        expect(head.count).toBeGreaterThan(300);
        expect(head.count).toBeLessThan((across * down) / 10);
      }
      await page.keyboard.press('n');
      await drawn(page);
    }
    expect(trouble).toEqual([]);
  });

  test('In a browser, contours can be hidden, one label or all of them', async () => {
    const view = await viewOf({ layout: usual, spacing: [2, 2, 2] });
    await using opened = await open([{ view }]);
    const { page, trouble } = opened;
    const counts = async () => {
      await drawn(page);
      const picture = await pictureOf(page.locator('[data-plane=axial]'));
      return view.labels.map(({ colour }) => middleOf(picture, colour).count > 0);
    };
    expect(await counts()).toEqual([true, true]);
    await page.getByLabel('Show label 2').uncheck();
    expect(await counts()).toEqual([true, false]);
    await page.keyboard.press('o');
    expect(await counts()).toEqual([false, false]);
    await page.getByRole('button', { name: 'Contours' }).click();
    expect(await counts()).toEqual([true, false]);
    const cells = await page.locator('#labels tr').first().locator('td').allTextContents();
    expect(cells[0]).toBe('label 1');
    expect(Number(cells[1]?.replaceAll(',', ''))).toBe(view.labels[0]?.voxels);
    expect(cells[2]).toBe(millilitresText(view.labels[0]?.millilitres ?? 0));
    expect(trouble).toEqual([]);
  });

  test('The wheel and keys move through slices, zoom and return to the whole slice', async () => {
    const view = await viewOf({ layout: usual, spacing: [2, 2, 2] }, 'phantom', 3);
    await using opened = await open([{ view }]);
    const { page, trouble } = opened;
    const panel = page.locator('[data-plane=coronal]');
    const caption = panel.locator('figcaption');
    const [at, count] = [view.planes[1].best + 1, view.planes[1].slices.length];
    const says = (slice: number) =>
      caption.filter({ hasText: new RegExp(`mm · ${slice}/${count}$`) }).waitFor();
    await says(at);
    await panel.hover();
    await page.mouse.wheel(0, -100);
    await says(at + 1);
    await page.keyboard.press('ArrowDown');
    await says(at);
    // Elsewhere, so that no name of a label is written into the corner.
    await page.mouse.move(10, 700);
    await drawn(page);
    const whole = await pictureOf(panel);
    await panel.hover();
    const scale = panel.locator('.scale');
    const length = await scale.textContent();
    await page.keyboard.down('Control');
    await page.mouse.wheel(0, -800);
    await page.keyboard.up('Control');
    await scale.filter({ hasNotText: length ?? '' }).waitFor();
    await page.mouse.down();
    await page.mouse.move(900, 200);
    await page.mouse.up();
    await page.keyboard.press('0');
    await scale.filter({ hasText: length ?? '' }).waitFor();
    await page.mouse.move(10, 700);
    await drawn(page);
    expect(Buffer.compare(whole.pixels, (await pictureOf(panel)).pixels)).toBe(0);
    expect(trouble).toEqual([]);
  });

  test('In a browser, keys mark cases, and marks survive a reload and appear in the CSV', async () => {
    const view = await viewOf({ layout: usual, spacing: [4, 4, 4] });
    const cases = ['one', 'two, too', 'three', 'four'].map((name) => ({ view: { ...view, name } }));
    await using opened = await open(cases, { hasOwnProfile: true });
    const { page, trouble } = opened;
    const press = async (...keys: string[]) => {
      for (const key of keys) await page.keyboard.press(key);
    };
    await press('1', 'n', '2', 'c');
    await page.keyboard.type('=1+1 "left"');
    await page.keyboard.press('Enter');
    await page.keyboard.type('n, 3');
    await press('Escape', 'ArrowRight', '3', 'n', '1', '1');
    const expected =
      'case,mark,comment,marked_at\r\none,pass,,TIME\r\n"two, too",fail,"\'=1+1 ""left""\nn, 3",TIME\r\nthree,unsure,,TIME\r\nfour,,,TIME\r\n';
    expect(times(await saved(page, () => page.keyboard.press('s')))).toBe(expected);
    expect(await page.locator('#progress').textContent()).toBe(
      '3 of 4 marked: 1 pass, 1 fail, 1 unsure · Saved as qc-marks.csv',
    );
    // A busy Chromium may load the page again before it has taken in what was stored.
    await until('the page has its marks again', async () => {
      await page.reload();
      return (await page.locator('#progress').textContent())?.startsWith('3 of 4 marked');
    });
    await drawn(page);
    const save = page.getByRole('button', { name: 'Save CSV' });
    expect(times(await saved(page, () => save.click()))).toBe(expected);
    expect(await page.locator('.marks [aria-pressed=true]').textContent()).toBe('1 Pass');
    await press('n');
    expect(await page.locator('#comment').inputValue()).toBe('=1+1 "left"\nn, 3');
    // Of those that are listed, the third is the only one.
    await page.locator('#filter').selectOption('unsure');
    await press('n');
    expect(await page.locator('#name').textContent()).toBe('three');
    expect(await page.locator('#cases li:visible').allTextContents()).toEqual(['three']);
    expect(trouble).toEqual([]);
  });

  test('A case of several layers has one mark, and its layers are switched', async () => {
    const { scan, mask } = phantom({ layout: usual, spacing: [4, 4, 4] });
    const empty = volumeOf(new Uint8Array(mask.size[0] * mask.size[1] * mask.size[2]), [...mask.size], {
      affine: mask.affine,
    });
    const layer = async (name: string, own: typeof mask) => ({
      ...{ name, scan, mask: own },
      view: await viewCase({ name, scan, mask: own }, options),
    });
    const layers = [await layer('mask', mask), await layer('mask_1', empty)];
    const cases: DrawnCase[] = [
      { name: 'sub-01', layers, notes: ['Edited by a person: it'], status: 'edited' },
      { name: 'sub-02', layers: [], notes: ['It failed: no head'], status: 'failed' },
    ];
    await using opened = await open(cases);
    const { page, trouble } = opened;
    const notes = () => page.locator('#notes li').allTextContents();
    expect(await page.locator('#cases li').count()).toBe(2);
    expect(await page.locator('#layers button').allTextContents()).toEqual(['mask', 'mask_1']);
    expect(await page.locator('#labels tr').count()).toBe(2);
    await page.getByRole('button', { name: 'mask_1' }).click();
    await drawn(page);
    expect(await page.locator('#labels tr').count()).toBe(0);
    expect(await notes()).toEqual(['Edited by a person: it', 'phantom.nii is empty: no voxel has a label']);
    await page.keyboard.press('l');
    expect(await page.locator('#layers [aria-pressed=true]').textContent()).toBe('mask');
    await page.keyboard.press('1');
    await page.keyboard.press('n');
    await drawn(page);
    expect(await page.locator('#layers').isVisible()).toBe(false);
    expect(await page.locator('.nothing:visible').count()).toBe(3);
    expect(await notes()).toEqual(['It failed: no head']);
    expect(await page.locator('#cases .failed').allTextContents()).toEqual(['failed']);
    expect(times(await saved(page, () => page.keyboard.press('s')))).toBe(
      'case,mark,comment,marked_at\r\nsub-01,pass,,TIME\r\nsub-02,,,\r\n',
    );
    expect(trouble).toEqual([]);
  });

  test.each([400, 1000])(
    'At %i pixels nothing is cut off, and long names stay distinguishable',
    async (width) => {
      const view = await viewOf({ layout: usual, spacing: [4, 4, 4] });
      const name = (run: number) => `sub-NDARINV003RTV85_ses-baselineYear1Arm1_task-rest_run-0${run}_T1w`;
      await using opened = await open([1, 2].map((run) => ({ view: { ...view, name: name(run) } })));
      const { page, trouble } = opened;
      await page.setViewportSize({ width, height: 800 });
      await drawn(page);
      const wide = await page.evaluate('document.documentElement.scrollWidth');
      expect(wide).toBeLessThanOrEqual(width);
      for (const place of [
        '#save',
        '#help',
        '.marks button >> nth=2',
        '[data-plane=axial]',
        '#labels tr',
        '#name',
      ]) {
        await page.locator(place).first().scrollIntoViewIfNeeded();
        const box = await page.locator(place).first().boundingBox();
        expect(box?.x, place).toBeGreaterThanOrEqual(0);
        expect((box?.x ?? 0) + (box?.width ?? 0), place).toBeLessThanOrEqual(width);
        expect(box?.height, place).toBeGreaterThan(10);
      }
      const panel = await page.locator('[data-plane=axial]').boundingBox();
      expect(Math.min(panel?.width ?? 0, panel?.height ?? 0)).toBeGreaterThan(250);
      const areCut = await page.evaluate(
        "[...document.querySelectorAll('#cases .name')].some((name) => name.scrollWidth > name.clientWidth + 1)",
      );
      expect(areCut).toBe(false);
      expect(trouble).toEqual([]);
    },
  );

  test('The exported marks cannot make a spreadsheet compute anything', async () => {
    const view = await viewOf({ layout: usual, spacing: [4, 4, 4] });
    await using opened = await open([{ view: { ...view, name: 'x;=1+1' } }]);
    const { page } = opened;
    await page.keyboard.press('c');
    await page.keyboard.type('a; @SUM(1)');
    await page.keyboard.press('Enter');
    await page.keyboard.type('-2');
    await page.keyboard.press('Escape');
    expect(times(await saved(page, () => page.keyboard.press('s'))).split('\r\n')[1]).toBe(
      `"x;'=1+1",,"a; '@SUM(1)\n'-2",TIME`,
    );
  });

  test('In a browser without storage, marks are kept until the page is closed, and it says so', async () => {
    const view = await viewOf({ layout: usual, spacing: [4, 4, 4] });
    const script = `Object.defineProperty(window, 'localStorage', { get() { throw new Error('denied'); } })`;
    await using opened = await open([{ view }], { hasOwnProfile: true, script });
    const { page, trouble } = opened;
    await page.keyboard.press('2');
    expect(await page.locator('#progress').textContent()).toContain(
      'this browser keeps no marks: save the CSV before you close the page',
    );
    expect(times(await saved(page, () => page.keyboard.press('s')))).toContain('phantom,fail,,TIME');
    expect(trouble).toEqual([]);
  });

  test('Names are shown as text wherever they come from, and the page can request nothing', async () => {
    const evil = `</script><script>alert(1)</script><img src="https://example.org/x" onerror="alert(2)">'\u2028`;
    const view = await viewOf({ layout: usual, spacing: [4, 4, 4] }, evil);
    const labels = view.labels.map((label) => ({ ...label, name: evil }));
    await using opened = await open([{ view: { ...view, labels, notes: [evil] } }]);
    const { page, trouble } = opened;
    for (const place of ['#name', '#cases .name', '#notes li'])
      expect(await page.locator(place).first().textContent()).toBe(evil);
    expect(await page.locator('#labels label').first().textContent()).toBe(evil);
    expect(await page.locator('img').count()).toBe(0);
    expect(trouble).toEqual([]);
    const blocked = await page.evaluate(`new Promise((done) => {
      document.addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective), { once: true });
      fetch('http://127.0.0.1:9/').catch(() => {});
    })`);
    expect(blocked).toBe('connect-src');
  });

  test('A single slice and a scan without a segmentation are shown', async () => {
    const data = Uint8Array.from({ length: 64 }, (_, at) => at * 4);
    const flat = await viewCase({ name: 'flat', scan: volumeOf(data, [8, 8, 1]), mask: null }, options);
    await using opened = await open([{ view: flat }]);
    const { page, trouble } = opened;
    expect(await page.locator('.nothing:visible').count()).toBe(2);
    expect(await page.locator('#no-labels').isVisible()).toBe(true);
    await page.keyboard.press('ArrowUp');
    expect(await page.locator('[data-plane=axial] figcaption').textContent()).toMatch(/· 1\/1$/);
    expect(trouble).toEqual([]);
  });

  test('A page with volumes shows them with its embedded viewer', async () => {
    await using place = await temporary();
    const { scan, mask } = phantom({ layout: usual, spacing: [4, 4, 4] });
    const view = await viewCase({ name: 'phantom', scan, mask }, options);
    // One file is put in as it is, and the other one is converted.
    const file = path.join(place.path, 'mask.nii.gz');
    await writeNifti(file, await readVolume(mask));
    await using opened = await open([{ view, scan, mask: await openVolume(file) }], { hasVolumes: true });
    const { page, trouble } = opened;
    await page.keyboard.press('v');
    await page.locator('#volumes[aria-busy=false]').waitFor();
    await drawn(page);
    const picture = await pictureOf(page.locator('#volumes'));
    let lit = 0;
    for (let at = 0; at < picture.pixels.length; at += 3) if ((picture.pixels[at] ?? 0) > 60) lit += 1;
    expect(lit).toBeGreaterThan(5000);
    expect(trouble).toEqual([]);
  });
});

async function pictureOf(element: Locator) {
  const { width, height, data, channels } = decode(await element.screenshot());
  const pixels = new Uint8Array(width * height * 3);
  for (let at = 0; at < width * height; at += 1)
    for (let part = 0; part < 3; part += 1) pixels[at * 3 + part] = data[at * channels + part] as number;
  return { width, height, pixels };
}

/** The middle of the pixels of a colour, how far they reach to the sides, and their number. */
function middleOf(
  { width, height, pixels }: Awaited<ReturnType<typeof pictureOf>>,
  colour: readonly number[] = [],
) {
  let [x, y, count, left, right] = [0, 0, 0, width, 0];
  for (let at = 0; at < width * height; at += 1) {
    if (!colour.every((part, of) => pixels[at * 3 + of] === part)) continue;
    x += (at % width) + 0.5;
    left = Math.min(left, at % width);
    right = Math.max(right, (at % width) + 1);
    y += Math.floor(at / width) + 0.5;
    count += 1;
  }
  return { x: x / count, y: y / count, count, left, right };
}
