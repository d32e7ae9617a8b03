import { file } from '../../../support/form.mjs';
import { multipartType, requestHead } from '../../../support/multipart.mjs';
import { ended, submit } from '../../support/api.mjs';
import { Connection } from '../../support/connection.mjs';
import { HealthWatch } from '../../support/health-watch.mjs';

const many = 500;
const openings = [
  '',
  'G',
  'GET /health HTTP/1.1\r\n',
  'POST /apps/witness/infer HTTP/1.1\r\nHost: localhost\r\nContent-',
];

/** Clients that connect and are silent, or stop in the middle: all others are served as usual. */
export async function silentConnections(context, server) {
  const { random } = context;
  const connections = [];
  for (let count = 0; count < many; count += 50) {
    connections.push(...(await Promise.all(Array.from({ length: 50 }, () => Connection.open(server.url)))));
  }
  context.count('connections that say nothing', connections.length);
  for (const each of connections) each.socket.write(random.pick(openings));
  // Uploads that have begun take a place, so this case begins at most half as many as there are places.
  const headers = [`Content-Type: ${multipartType}`, 'Content-Length: 100000'];
  for (const each of connections.slice(0, 10)) {
    each.close();
    const upload = await Connection.open(server.url);
    upload.socket.write(requestHead('POST', '/apps/witness/infer', headers));
    connections.push(upload);
    context.count('uploads that begin and stop');
  }
  const watch = new HealthWatch(context, server);
  for (let jobs = 0; jobs < 3; jobs += 1) {
    const view = await ended(server, await submit(server, 'witness', 'infer', { inputs: file('scan.nii') }));
    context.check(
      view.status === 'done',
      `A job beside silent clients ended as ${view.status}: ${view.error}`,
    );
  }
  await watch.end();
  for (const each of connections) each.close();
}
