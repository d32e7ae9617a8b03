/**
 * The yardstick of transfers: the least that a Node server does. POST pipes the request body into a new file of a
 * directory and answers when it survives a power cut, GET pipes a file into the answer. Started with the directory and
 * the path of the file to read.
 */
import { createReadStream, createWriteStream } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';

const [directory = '', read = ''] = process.argv.slice(2);

let received = 0;

const server = createServer(async (request, response) => {
  if (request.method === 'POST') {
    received += 1;
    await pipeline(request, createWriteStream(path.join(directory, `body-${received}`), { flush: true }));
    response.end('{}');
  } else {
    await pipeline(createReadStream(read), response);
  }
});
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`Listening on http://127.0.0.1:${server.address().port}\n`);
});
