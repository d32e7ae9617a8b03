import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const app = fileURLToPath(new URL('../../apps/masker', import.meta.url));

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

const recordName = 'remote-app-record.json';

/** The rows of a table by their first cells. A cell is quoted where it has to be. */
function rowsOf(text) {
  const rows = text
    .split('\r\n')
    .slice(1, -1)
    .map((row) =>
      [...row.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(
        ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain,
      ),
    );
  return new Map(rows.map(([name, status, reason]) => [name, { status, reason }]));
}

/** A BIDS tree of scans, an app that notes what it computes, and what has to come of them. */
export class Study {
  /** The scans by the names of their cases. */
  scans = new Map();

  constructor(context) {
    this.root = path.join(context.scratch, `study-${context.serial()}`);
    this.app = path.join(this.root, 'masker');
    mkdirSync(this.root);
    cpSync(app, this.app, { recursive: true });
    mkdirSync(path.join(this.root, 'bids'));
    writeFileSync(path.join(this.root, 'bids', 'dataset_description.json'), '{"Name": "Faults"}');
  }

  /** The command that computes all of it. */
  words(output = 'Out') {
    const at = (name) => path.resolve(this.root, name);
    return ['infer', '--each', at('bids'), '-o', at(output), '--at-most', '4'];
  }

  pathOf(name) {
    return path.join(this.root, 'bids', name.split('_')[0], 'anat', `${name}.nii`);
  }

  /** Adds a scan with this content, or replaces it. */
  add(number, content) {
    const name = `sub-${String(number).padStart(3, '0')}_T1w`;
    const file = this.pathOf(name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, content);
    this.scans.set(name, content);
    return name;
  }

  /** What the app has computed, in its order. */
  get computed() {
    const file = path.join(this.root, 'computed');
    return existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n') : [];
  }

  /** When the table was written, in milliseconds since 1970; 0 if there is none. */
  get tableTime() {
    const stats = statSync(path.join(this.root, 'Out', 'cases.csv'), { throwIfNoEntry: false });
    return stats?.mtimeMs ?? 0;
  }

  table(output = 'Out') {
    return rowsOf(readFileSync(path.resolve(this.root, output, 'cases.csv'), 'utf8'));
  }

  /** The mask of a case, as the app computes it. */
  maskOf(name) {
    return `mask of ${this.scans.get(name)}\n`;
  }

  /** What is wrong with the directory of a finished case; null if nothing is. */
  faultOf(name, output = 'Out') {
    const directory = path.resolve(this.root, output, name);
    if (!existsSync(directory)) return 'has no directory';
    const content = this.scans.get(name);
    const expected = {
      'mask.nii': this.maskOf(name),
      'measurements.json': `{"cases": [{"letters": ${content.length}}]}\n`,
      'steps/outline.nii': `outline of ${content}\n`,
    };
    for (const [file, text] of Object.entries(expected)) {
      const target = path.join(directory, file);
      if (!existsSync(target)) return `lacks ${file}`;
      if (readFileSync(target, 'utf8') !== text) return `has another ${file}`;
    }
    const record = this.recordOf(name, output);
    if (record === null) return 'has no record';
    const outputs = Object.entries(expected).map(([file, each]) => ({
      name: file,
      size: each.length,
      sha256: sha256(each),
    }));
    if (JSON.stringify(record.outputs) !== JSON.stringify(outputs)) return 'has a record of other outputs';
    if (record.inputs[0]?.sha256 !== sha256(content)) return 'has a record of other inputs';
    return null;
  }

  /** The record in the directory of a case; null if there is none that can be read. */
  recordOf(name, output = 'Out') {
    try {
      return JSON.parse(readFileSync(path.resolve(this.root, output, name, recordName), 'utf8'));
    } catch {
      return null;
    }
  }

  /** Whether the directory of a case has the outputs that its record names. */
  isWhole(name, output = 'Out') {
    const record = this.recordOf(name, output);
    const isThere = (file) => {
      const target = path.resolve(this.root, output, name, file.name);
      return existsSync(target) && sha256(readFileSync(target)) === file.sha256;
    };
    return record?.outputs.every(isThere) ?? false;
  }
}
