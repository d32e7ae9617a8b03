/**
 * Extracts an archive with the client's own code, in a process of its own as the client is, and prints
 * the seconds that it took. The client has its modules loaded by the time that it extracts: they do not count.
 */
import { extractArchive } from '../../dist/archive/extract.js';

const [archive, destination] = process.argv.slice(2);
const startedAt = performance.now();
await extractArchive(archive, destination, {
  maxBytes: 2 ** 40,
  maxEntries: 1_000_000,
  lenient: true,
  onProgress: () => {},
});
process.stdout.write(String((performance.now() - startedAt) / 1000));
