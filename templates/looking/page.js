/* The page of `remote-app show --html`. Everything that it shows is in data blocks of the same file. */
(() => {
  const byId = (id) => document.getElementById(id);
  const dataOf = (id) => JSON.parse(byId(id)?.textContent ?? 'null');
  const page = dataOf('page');

  /** Makes an element; texts become text, never markup. */
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  // Marks.

  const marks = page.names.map(() => ({ mark: '', comment: '', at: '' }));
  const storageKey = `remote-app-show-${page.id}`;
  let isStored = true;
  let isSaved = true;

  function restore() {
    try {
      const stored = JSON.parse(localStorage.getItem(storageKey) ?? '[]');
      marks.forEach((each, at) => {
        const { mark, comment, at: time } = stored[at] ?? {};
        if (['pass', 'fail', 'unsure'].includes(mark)) each.mark = mark;
        if (typeof comment === 'string') each.comment = comment;
        if (typeof time === 'string') each.at = time;
      });
    } catch {
      // A browser may forbid storage for files: the marks then live as long as the page.
      isStored = false;
    }
  }

  function keep() {
    isSaved = false;
    try {
      localStorage.setItem(storageKey, JSON.stringify(marks));
      isStored = true;
    } catch {
      isStored = false;
    }
  }

  /**
   * RFC 4180. Where a spreadsheet begins a cell, also one that takes semicolons or tabs for its separators, and would calculate it,
   * there is a quote. The name of a case is written as in cases.csv, so that both can be joined.
   */
  function csvCell(text) {
    const safe = text.replaceAll(/(^|[;\t\r\n])([^\S\r\n]*)(?=[=+@-])/g, "$1$2'");
    return /[",;\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  function saveCsv() {
    const rows = page.names.map((name, at) => [name, marks[at].mark, marks[at].comment, marks[at].at]);
    const lines = [['case', 'mark', 'comment', 'marked_at'], ...rows].map((row) =>
      row.map(csvCell).join(','),
    );
    const url = URL.createObjectURL(new Blob([`${lines.join('\r\n')}\r\n`], { type: 'text/csv' }));
    const link = make('a', { href: url, download: page.csvName });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
    isSaved = true;
    showProgress(`Saved as ${page.csvName}`);
  }

  function setMark(mark) {
    const each = marks[current];
    each.mark = each.mark === mark ? '' : mark;
    each.at = new Date().toISOString();
    keep();
    showMark();
  }

  // The list of cases.

  let current = -1;
  /** The case that is shown, and the layer of it. */
  let shownCase = null;
  let shownLayer = null;

  /** How many characters all names begin with, up to the last separator: these are dimmed, since they tell no case apart. */
  const sharedStart = (() => {
    const [first = '', ...others] = page.names;
    if (others.length === 0) return 0;
    let end = 0;
    while (end < first.length && others.every((name) => name[end] === first[end])) end += 1;
    return first.slice(0, end).replace(/[^_.\-\s]*$/, '').length;
  })();

  const items = page.names.map((name, at) => {
    const state = make('span', { class: 'state' });
    const comment = make('span', { class: 'has-comment' });
    const [start, rest] = [name.slice(0, sharedStart), name.slice(sharedStart)];
    const text = make(
      'span',
      { class: 'name' },
      make('span', { class: sharedStart > 12 ? 'shared is-long' : 'shared' }, start),
      rest,
    );
    const failed = page.failed[at] ? [make('span', { class: 'failed' }, 'failed')] : [];
    const button = make('button', { type: 'button' }, state, text, ...failed, comment);
    button.title = name;
    button.addEventListener('click', () => showCase(at));
    const item = make('li', {}, button);
    return { item, button, state, comment };
  });
  byId('cases').append(...items.map(({ item }) => item));

  const isListed = (at) => ['all', marks[at].mark].includes(byId('filter').value);

  function showList() {
    items.forEach(({ item, button, state, comment }, at) => {
      const { mark } = marks[at];
      item.hidden = !isListed(at);
      state.dataset.mark = mark;
      comment.textContent = marks[at].comment ? '…' : '';
      const about = page.failed[at] ? ', failed' : '';
      button.setAttribute('aria-label', `${page.names[at]}${about}, ${mark || 'not marked'}`);
      button.setAttribute('aria-current', String(at === current));
    });
  }

  function showProgress(news = '') {
    const count = (mark) => marks.filter((each) => each.mark === mark).length;
    const [pass, fail, unsure] = ['pass', 'fail', 'unsure'].map(count);
    const parts = [
      `${pass + fail + unsure} of ${marks.length} marked: ${pass} pass, ${fail} fail, ${unsure} unsure`,
      ...(isStored ? [] : ['this browser keeps no marks: save the CSV before you close the page']),
      ...(news ? [news] : []),
    ];
    byId('progress').textContent = parts.join(' · ');
  }

  function showMark() {
    for (const button of document.querySelectorAll('.marks button'))
      button.setAttribute('aria-pressed', String(button.dataset.mark === marks[current].mark));
    showList();
    showProgress();
  }

  /** The next case of those that are listed, or the one before. */
  function step(direction) {
    for (let at = current + direction; at >= 0 && at < marks.length; at += direction) {
      if (!isListed(at)) continue;
      showCase(at);
      return;
    }
  }

  // The three planes.

  let areContoursOn = true;
  let colours = new Uint32Array(1);
  let hidden = new Set();
  let labelNames = [];

  const panels = ['axial', 'coronal', 'sagittal'].map((name) => {
    const text = make('span');
    const mark = (side) => make('span', { class: `mark ${side}`, 'aria-hidden': 'true' });
    const parts = {
      canvas: make('canvas', { role: 'img' }),
      caption: make('figcaption', {}, make('b', {}, name[0].toUpperCase() + name.slice(1)), text),
      under: make('span', { class: 'under' }),
      left: mark('left'),
      right: mark('right'),
      top: mark('top-side'),
      bottom: mark('bottom-side'),
      scale: make('span', { class: 'scale' }),
      // Keys move through slices without it, so that arrows to the sides are left for the cases.
      slider: make('input', { type: 'range', min: '0', tabindex: '-1', 'aria-label': `Slice, ${name}` }),
      nothing: make('span', { class: 'nothing' }, 'Nothing to draw in this plane.'),
    };
    const root = make(
      'figure',
      { class: 'panel', tabindex: '0', 'data-plane': name },
      ...Object.values(parts),
    );
    byId('grid').insertBefore(root, byId('info'));
    return { name, root, text, ...parts, at: 0, zoom: 1, x: 0, y: 0, plane: null, images: [], labels: null };
  });
  let active = panels[0];

  function activate(panel) {
    active = panel;
    for (const each of panels) each.root.classList.toggle('is-active', each === panel);
  }

  /** Where the picture lies on its canvas, in pixels of the screen. */
  function placeOf(panel) {
    const { canvas, plane } = panel;
    const fit = Math.min(canvas.width / plane.width, canvas.height / plane.height);
    const scale = fit * panel.zoom;
    const ratio = devicePixelRatio;
    const left = (canvas.width - plane.width * scale) / 2 + panel.x * ratio;
    const top = (canvas.height - plane.height * scale) / 2 + panel.y * ratio;
    return { scale, left, top };
  }

  /**
   * The borders of labels, found at the resolution of the screen: the lines have the same width at any zoom. Each label is
   * drawn inside of its own border, so that two that touch are both seen.
   */
  function contours(panel, { scale, left, top }) {
    const { canvas, plane } = panel;
    const { width, height } = plane;
    const from = (start) => Math.max(0, Math.ceil(start - 0.5));
    const to = (start, count, most) => Math.min(most, Math.ceil(start + count * scale - 0.5));
    const [x0, x1] = [from(left), to(left, width, canvas.width)];
    const [y0, y1] = [from(top), to(top, height, canvas.height)];
    const [across, down] = [x1 - x0, y1 - y0];
    if (across <= 0 || down <= 0) return null;
    const slice = panel.labels.subarray(panel.at * width * height, (panel.at + 1) * width * height);
    const shown = Uint8Array.from({ length: 256 }, (_, label) => (hidden.has(label) ? 0 : label));
    const columns = Int32Array.from({ length: across }, (_, x) =>
      Math.min(width - 1, Math.floor((x0 + x + 0.5 - left) / scale)),
    );
    const labels = new Uint8Array(across * down);
    for (let y = 0, at = 0; y < down; y += 1) {
      const row = Math.min(height - 1, Math.floor((y0 + y + 0.5 - top) / scale)) * width;
      for (let x = 0; x < across; x += 1, at += 1) labels[at] = shown[slice[row + columns[x]]];
    }
    const line = Math.max(1, Math.min(Math.round(scale), Math.round(2 * devicePixelRatio)));
    const image = new ImageData(across, down);
    const pixels = new Uint32Array(image.data.buffer);
    for (let y = 0, at = 0; y < down; y += 1) {
      for (let x = 0; x < across; x += 1, at += 1) {
        const label = labels[at];
        if (label === 0) continue;
        for (let far = 1; far <= line; far += 1) {
          if (
            (x >= far && labels[at - far] !== label) ||
            (x + far < across && labels[at + far] !== label) ||
            (y >= far && labels[at - far * across] !== label) ||
            (y + far < down && labels[at + far * across] !== label)
          ) {
            pixels[at] = colours[label];
            break;
          }
        }
      }
    }
    return { image, x: x0, y: y0 };
  }

  const overlay = document.createElement('canvas');

  function draw(panel) {
    const { canvas, plane } = panel;
    const isThere = plane !== null && plane.images.length > 0;
    panel.nothing.hidden = isThere;
    const parts = [panel.left, panel.right, panel.top, panel.bottom, panel.scale, panel.slider];
    for (const part of parts) part.hidden = !isThere;
    const ratio = devicePixelRatio;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((side) =>
      Math.max(1, Math.round(side * ratio)),
    );
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    const context = canvas.getContext('2d');
    context.fillStyle = '#000';
    context.fillRect(0, 0, width, height);
    panel.text.textContent = '';
    if (!isThere) return;
    const image = panel.images[panel.at];
    const place = placeOf(panel);
    if (image?.isDecoded) {
      // Magnified far enough, a person wants to see the voxels themselves.
      context.imageSmoothingEnabled = place.scale < 4 * ratio;
      context.imageSmoothingQuality = 'high';
      context.drawImage(image, place.left, place.top, plane.width * place.scale, plane.height * place.scale);
    }
    if (areContoursOn && panel.labels) {
      const drawn = contours(panel, place);
      if (drawn) {
        overlay.width = drawn.image.width;
        overlay.height = drawn.image.height;
        overlay.getContext('2d').putImageData(drawn.image, 0, 0);
        context.drawImage(overlay, drawn.x, drawn.y);
      }
    }
    const count = plane.images.length;
    const where = `${plane.places[panel.at]}, slice ${panel.at + 1} of ${count}`;
    panel.text.textContent = ` ${plane.places[panel.at]} · ${panel.at + 1}/${count}`;
    canvas.setAttribute('aria-label', `${plane.name} slice of ${page.names[current]}, ${where}`);
    panel.slider.value = String(panel.at);
    const onScreen = place.scale / ratio / shownLayer.pixel;
    const length = [500, 200, 100, 50, 20, 10, 5, 2, 1, 0.5].find((mm) => mm * onScreen <= 110) ?? 0.2;
    panel.scale.style.width = `${Math.max(8, length * onScreen)}px`;
    panel.scale.textContent = `${length} mm`;
  }

  let drawing = 0;
  const waiting = new Set();
  /** Draws a panel before the next frame, however many reasons there are. */
  function redraw(...chosen) {
    for (const panel of chosen.length > 0 ? chosen : panels) waiting.add(panel);
    if (drawing) return;
    drawing = requestAnimationFrame(() => {
      drawing = 0;
      for (const panel of waiting) draw(panel);
      waiting.clear();
    });
  }

  function toSlice(panel, at) {
    if (!panel.plane) return;
    panel.at = Math.max(0, Math.min(panel.plane.images.length - 1, at));
    redraw(panel);
  }

  /** Zooms so that what lies under a point of the panel stays there. */
  function zoomTo(panel, zoom, x = 0, y = 0) {
    const next = Math.max(1, Math.min(40, zoom));
    const ratio = next / panel.zoom;
    panel.x = next === 1 ? 0 : x - (x - panel.x) * ratio;
    panel.y = next === 1 ? 0 : y - (y - panel.y) * ratio;
    panel.zoom = next;
    redraw(panel);
  }

  const whole = (panel) => zoomTo(panel, 1);

  for (const panel of panels) {
    const { canvas, root, slider } = panel;
    const fromMiddle = (event) => {
      const { left, top, width, height } = canvas.getBoundingClientRect();
      return [event.clientX - left - width / 2, event.clientY - top - height / 2];
    };
    let turned = 0;
    root.addEventListener(
      'wheel',
      (event) => {
        event.preventDefault();
        activate(panel);
        const lines = event.deltaMode === 0 ? event.deltaY : event.deltaY * 40;
        if (event.ctrlKey) {
          zoomTo(panel, panel.zoom * Math.exp(-lines / 250), ...fromMiddle(event));
          return;
        }
        // A touchpad sends many small turns, a mouse wheel sends few large ones.
        turned += lines;
        if (Math.abs(turned) < 30) return;
        toSlice(panel, panel.at - Math.sign(turned));
        turned = 0;
      },
      { passive: false },
    );
    root.addEventListener('pointerenter', () => activate(panel));
    root.addEventListener('focus', () => activate(panel));
    let held = null;
    canvas.addEventListener('pointerdown', (event) => {
      held = { x: event.clientX - panel.x, y: event.clientY - panel.y };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (held) {
        panel.x = event.clientX - held.x;
        panel.y = event.clientY - held.y;
        redraw(panel);
      }
      panel.under.textContent = labelUnder(panel, ...fromMiddle(event));
    });
    const release = () => {
      held = null;
    };
    canvas.addEventListener('pointerup', release);
    canvas.addEventListener('pointercancel', release);
    canvas.addEventListener('pointerleave', () => {
      panel.under.textContent = '';
    });
    canvas.addEventListener('dblclick', () => whole(panel));
    slider.addEventListener('input', () => toSlice(panel, Number(slider.value)));
    slider.addEventListener('change', () => slider.blur());
    new ResizeObserver(() => redraw(panel)).observe(canvas);
  }

  function labelUnder(panel, x, y) {
    const { canvas, plane, labels } = panel;
    if (!plane || !labels || plane.images.length === 0) return '';
    const { scale, left, top } = placeOf(panel);
    const column = Math.floor((x * devicePixelRatio + canvas.width / 2 - left) / scale);
    const row = Math.floor((y * devicePixelRatio + canvas.height / 2 - top) / scale);
    if (column < 0 || row < 0 || column >= plane.width || row >= plane.height) return '';
    return labelNames[labels[(panel.at * plane.height + row) * plane.width + column]] ?? '';
  }

  // A case.

  const bytesOf = (base64) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));

  async function unpacked(base64) {
    const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  /** Decodes the slices of one layer, those that are shown first; stops as soon as another one is shown. */
  async function decode(layer, pictures) {
    const isCurrent = () => shownLayer === layer;
    byId('grid').setAttribute('aria-busy', 'true');
    await Promise.all(
      panels.map(async (panel) => {
        const { plane } = panel;
        if (plane === null || plane.labels === null) return;
        const labels = await unpacked(plane.labels);
        if (!isCurrent()) return;
        panel.labels = labels;
        redraw(panel);
      }),
    );
    const nearest = panels.flatMap((panel) =>
      (panel.plane?.images ?? []).map((picture, index) => ({
        panel,
        source: pictures[picture],
        index,
        far: Math.abs(index - panel.at),
      })),
    );
    nearest.sort((a, b) => a.far - b.far);
    for (const { panel, source, index } of nearest) {
      const image = new Image();
      image.src = `data:image/jpeg;base64,${source}`;
      await image.decode();
      if (!isCurrent()) return;
      image.isDecoded = true;
      panel.images[index] = image;
      if (index === panel.at) redraw(panel);
    }
    byId('grid').setAttribute('aria-busy', 'false');
  }

  function showLabels(labels) {
    byId('no-labels').hidden = labels !== null;
    document.querySelector('.labels table').hidden = labels === null;
    hidden = new Set();
    const listed = labels ?? [];
    labelNames = ['', ...listed.map(({ name }) => name)];
    colours = new Uint32Array(256);
    const rows = listed.map(({ name, colour, voxels, volume }, index) => {
      const label = index + 1;
      new Uint8Array(colours.buffer).set([...colour, 255], label * 4);
      const box = make('input', { type: 'checkbox', 'aria-label': `Show ${name}` });
      box.checked = true;
      box.addEventListener('change', () => {
        if (box.checked) hidden.delete(label);
        else hidden.add(label);
        box.blur();
        redraw();
      });
      const swatch = make('span', { class: 'swatch' });
      swatch.style.background = `rgb(${colour.join(' ')})`;
      const cells = [voxels.toLocaleString('en'), volume].map((text) => make('td', {}, text));
      return make('tr', {}, make('td', {}, make('label', {}, box, swatch, name)), ...cells);
    });
    byId('labels').replaceChildren(...rows);
  }

  function showCase(at) {
    if (at === current || at < 0 || at >= marks.length) return;
    current = at;
    const view = dataOf(`case-${at}`);
    shownCase = view;
    byId('name').textContent = page.names[at];
    byId('name').title = page.names[at];
    byId('comment').value = marks[at].comment;
    for (const panel of panels) panel.plane = null;
    byId('layers').hidden = view.layers.length < 2;
    byId('layers').replaceChildren(
      ...view.layers.map(({ name }, index) => {
        const button = make('button', { type: 'button' }, name);
        button.addEventListener('click', () => showLayer(index));
        return button;
      }),
    );
    showLayer(0);
    showMark();
    items[at].button.scrollIntoView({ block: 'nearest' });
  }

  /** What is shown of a case without a picture. */
  const noLayer = { pixel: 1, window: '', notes: [], labels: null, planes: [null, null, null] };

  /** Where a slice lies, in mm to the right, to the front or upwards: `P 12 mm` is -12. */
  const positionOf = (place) => Number.parseFloat(place.replace(/^[LPI] /, '-').replace(/^[RAS] /, ''));

  /** Which slice of a plane is the nearest to the one that is shown. */
  function sliceNear(panel, plane) {
    const place = panel.plane.places[panel.at];
    if (place === undefined || plane.places.length === 0) return plane.best;
    const far = plane.places.map((each) => Math.abs(positionOf(each) - positionOf(place)));
    return far.indexOf(Math.min(...far));
  }

  function showLayer(index) {
    const layer = shownCase.layers[index] ?? noLayer;
    shownLayer = layer;
    byId('about').textContent = [`case ${current + 1} of ${marks.length}`, layer.window]
      .filter(Boolean)
      .join(' · ');
    [...byId('layers').children].forEach((button, at) => {
      button.setAttribute('aria-pressed', String(at === index));
    });
    const notes = [...shownCase.notes, ...layer.notes];
    byId('notes').replaceChildren(...notes.map((note) => make('li', {}, note)));
    showLabels(layer.labels);
    panels.forEach((panel, of) => {
      const plane = layer.planes[of];
      const isSame = panel.plane !== null && plane !== null;
      const place = isSame ? { zoom: panel.zoom, x: panel.x, y: panel.y } : { zoom: 1, x: 0, y: 0 };
      Object.assign(panel, { at: isSame ? sliceNear(panel, plane) : (plane?.best ?? 0), ...place });
      Object.assign(panel, { plane, images: [], labels: null });
      panel.slider.max = String(Math.max(0, (plane?.images.length ?? 0) - 1));
      panel.under.textContent = '';
      for (const side of ['left', 'right', 'top', 'bottom'])
        panel[side].textContent = plane?.marks[side] ?? '';
      redraw(panel);
    });
    if (byId('grid').classList.contains('has-volumes')) showVolumes();
    decode(layer, shownCase.pictures).catch((cause) =>
      showProgress(`The pictures of this case cannot be shown: ${cause.message}`),
    );
  }

  /** The next layer, after the last one the first. */
  function nextLayer() {
    const { layers } = shownCase;
    if (layers.length > 1) showLayer((layers.indexOf(shownLayer) + 1) % layers.length);
  }

  // Volumes, in pages that carry them.

  let viewer = null;
  let loading = Promise.resolve();

  /** One after another: a case that is skipped over is not loaded. */
  function showVolumes() {
    const layer = shownLayer;
    const id = `${current}-${Math.max(0, shownCase.layers.indexOf(layer))}`;
    loading = loading
      .then(() => (layer === shownLayer ? loadVolumes(id) : null))
      .catch((cause) => showProgress(`The volumes cannot be shown: ${cause.message}`));
  }

  async function loadVolumes(id) {
    const { Niivue, NVImage, SHOW_RENDER } = globalThis.niivue;
    if (!viewer) {
      viewer = new Niivue({
        isRadiologicalConvention: true,
        sagittalNoseLeft: true,
        multiplanarShowRender: SHOW_RENDER.ALWAYS,
        backColor: [0, 0, 0, 1],
        dragAndDropEnabled: false,
        clipPlaneHotKey: '',
        viewModeHotKey: '',
        logLevel: 'error',
      });
      await viewer.attachToCanvas(byId('volume-canvas'));
    }
    byId('volumes').setAttribute('aria-busy', 'true');
    for (const volume of [...viewer.volumes].reverse()) viewer.removeVolume(volume);
    for (const kind of ['scan', 'mask']) {
      const base64 = byId(`${kind}-${id}`)?.textContent.trim();
      if (!base64) continue;
      const isOverlay = kind === 'mask' && viewer.volumes.length > 0;
      const volume = await NVImage.loadFromBase64({
        base64,
        name: `${kind}.nii.gz`,
        opacity: isOverlay ? overlayOpacity() : 1,
        colormapInvert: kind === 'scan' && shownLayer.isInverted === true,
      });
      if (kind === 'mask') volume.setColormapLabel(colourTable());
      viewer.addVolume(volume);
    }
    if (viewer.volumes.length === 0) showProgress('This case carries no volumes');
    viewer.updateGLVolume();
    byId('volumes').setAttribute('aria-busy', 'false');
  }

  /** In volumes, labels are filled: half transparent, or hidden. */
  const overlayOpacity = () => (areContoursOn ? 0.5 : 0);

  /** Colours of labels by their values, as NiiVue takes them. */
  function colourTable() {
    const labels = shownLayer.labels ?? [];
    const part = (of) => [0, ...labels.map(({ colour }) => colour[of])];
    return {
      R: part(0),
      G: part(1),
      B: part(2),
      A: [0, ...labels.map(() => 255)],
      I: [0, ...labels.map(({ value }) => value)],
      labels: ['', ...labels.map(({ name }) => name)],
    };
  }

  function toggleVolumes() {
    if (!page.hasVolumes) return;
    const isOn = byId('grid').classList.toggle('has-volumes');
    byId('volumes').hidden = !isOn;
    byId('three').setAttribute('aria-pressed', String(isOn));
    if (isOn) showVolumes();
    else redraw();
  }

  // Keys and buttons.

  function toggleContours() {
    areContoursOn = !areContoursOn;
    byId('overlay').setAttribute('aria-pressed', String(areContoursOn));
    redraw();
    if (viewer?.volumes.length === 2) viewer.setOpacity(1, overlayOpacity());
  }

  function writeComment() {
    byId('comment').focus();
  }

  const keys = {
    1: () => setMark('pass'),
    2: () => setMark('fail'),
    3: () => setMark('unsure'),
    n: () => step(1),
    p: () => step(-1),
    ArrowRight: () => step(1),
    ArrowLeft: () => step(-1),
    ArrowUp: () => toSlice(active, active.at + 1),
    ArrowDown: () => toSlice(active, active.at - 1),
    '+': () => zoomTo(active, active.zoom * 1.25),
    '=': () => zoomTo(active, active.zoom * 1.25),
    '-': () => zoomTo(active, active.zoom / 1.25),
    0: () => whole(active),
    f: () => byId('grid').classList.toggle('is-single'),
    o: toggleContours,
    c: writeComment,
    l: nextLayer,
    s: saveCsv,
    v: toggleVolumes,
    '?': () => byId('keys').showModal(),
  };

  document.addEventListener('keydown', (event) => {
    const { target, key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || byId('keys').open) return;
    if (target.matches('textarea, select')) {
      if (key === 'Escape') target.blur();
      return;
    }
    if (!Object.hasOwn(keys, key)) return;
    event.preventDefault();
    keys[key]();
  });
  for (const button of document.querySelectorAll('.marks button'))
    button.addEventListener('click', () => setMark(button.dataset.mark));
  byId('comment').addEventListener('input', () => {
    marks[current].comment = byId('comment').value;
    marks[current].at = new Date().toISOString();
    keep();
    showList();
    showProgress();
  });
  byId('filter').addEventListener('change', () => {
    byId('filter').blur();
    showList();
  });
  byId('save').addEventListener('click', saveCsv);
  byId('overlay').addEventListener('click', toggleContours);
  byId('three').addEventListener('click', toggleVolumes);
  byId('help').addEventListener('click', () => byId('keys').showModal());
  byId('close').addEventListener('click', () => byId('keys').close());
  addEventListener('beforeunload', (event) => {
    if (!isStored && !isSaved) event.preventDefault();
  });

  byId('title').textContent = page.title;
  byId('three').hidden = !page.hasVolumes;
  for (const each of document.querySelectorAll('.only-volumes')) each.hidden = !page.hasVolumes;
  restore();
  activate(panels[0]);
  showList();
  showProgress();
  showCase(0);
})();
