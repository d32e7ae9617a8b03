/**
 * Reads the log streams named on its command line, all at once, and compares each with the file `expected`: the
 * events of the app's own lines. Prints, as JSON, how many streams were whole.
 */
import { readFileSync } from 'node:fs';
import { get } from 'node:http';

const [expectedFile, ...urls] = process.argv.slice(2);
const expected = readFileSync(expectedFile);
const start = expected.subarray(0, expected.indexOf('\n\n') + 2);
const ending = 'data: __DONE__\n\n';

/** Reads a stream piece by piece: the service's first lines, then exactly the app's lines, then the end. */
class Comparison {
  #head = Buffer.alloc(0);
  #position = -1;
  #tail = '';
  #differs = false;

  take(piece) {
    if (this.#position >= 0) return this.#compare(piece);
    this.#head = Buffer.concat([this.#head, piece]);
    const at = this.#head.indexOf(start);
    if (at < 0) return;
    this.#position = 0;
    this.#compare(this.#head.subarray(at));
  }

  #compare(piece) {
    const count = Math.min(piece.length, expected.length - this.#position);
    const same = piece.compare(expected, this.#position, this.#position + count, 0, count) === 0;
    if (!same) this.#differs = true;
    this.#position += count;
    this.#tail += piece.toString('utf8', count);
  }

  get isWhole() {
    return !this.#differs && this.#position === expected.length && this.#tail.endsWith(ending);
  }
}

/** The header that a server with tokens asks for. */
const { SERVICE_API_TOKEN: token } = process.env;
const headers = token ? { Authorization: `Bearer ${token}` } : {};

const read = (url) =>
  new Promise((resolve, reject) => {
    const comparison = new Comparison();
    get(url, { agent: false, headers }, (response) => {
      response.on('data', (piece) => comparison.take(piece));
      response.once('end', () => resolve(comparison.isWhole));
      response.once('error', reject);
    }).once('error', reject);
  });

const whole = await Promise.all(urls.map(read));
process.stdout.write(JSON.stringify({ whole: whole.filter(Boolean).length, of: urls.length }));
