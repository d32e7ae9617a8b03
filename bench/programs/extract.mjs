/**
 * Extracts an archive with the client's own code, bundled and in a process of its own as the client is, and prints
 * the seconds that it took. The client has its modules loaded by the time that it extracts: they do not count.
 */
import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';

const chunks = new URL('../../dist/bundle/chunks/', import.meta.url);
const [chunk] = readdirSync(chunks).filter((name) => name.startsWith('extract-'));
const exported = Object.values(createRequire(chunks)(`./${chunk}`));
const extractArchive = exported.find(({ name }) => name === 'extractArchive');

const [archive, destination] = process.argv.slice(2);
const startedAt = performance.now();
await extractArchive(archive, destination, {
  maxBytes: 2 ** 40,
  maxEntries: 1_000_000,
  lenient: true,
  onProgress: () => {},
});
process.stdout.write(String((performance.now() - startedAt) / 1000));
