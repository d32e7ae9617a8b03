/**
 * The yardstick of transfers: the least that a Node server does. POST pipes the request body into a file, GET
 * pipes a file into the answer. Started with the path of the file to write and that of the file to read.
 */
import { createReadStream, createWriteStream } from 'node:fs';
import { createServer } from 'node:http';
import { pipeline } from 'node:stream/promises';

const [written = '', read = ''] = process.argv.slice(2);

const server = createServer(async (request, response) => {
  if (request.method === 'POST') {
    await pipeline(request, createWriteStream(written));
    response.end('{}');
  } else {
    await pipeline(createReadStream(read), response);
  }
});
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`Listening on http://127.0.0.1:${server.address().port}\n`);
});
