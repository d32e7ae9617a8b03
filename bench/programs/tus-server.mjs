/**
 * A rival of uploads: `@tus/server` with its file store, as its own page has it. Started with the directory of the store. It
 * answers when everything is written, and syncs nothing: what it has accepted may be gone after a power cut.
 */
import { createServer } from 'node:http';
import { FileStore } from '@tus/file-store';
import { Server } from '@tus/server';

const [directory = ''] = process.argv.slice(2);

const tus = new Server({ path: '/files', datastore: new FileStore({ directory }) });
const server = createServer((request, response) => tus.handle(request, response));
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`Listening on http://127.0.0.1:${server.address().port}/files\n`);
});
