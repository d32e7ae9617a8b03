import { existsSync } from 'node:fs';
import path from 'node:path';
import { file } from '../../../support/form.mjs';
import { ended, kill, request, steps, submit } from '../../support/api.mjs';
import { Connection } from '../../support/connection.mjs';
import { letTimePass } from '../../support/pass-time.mjs';
import { until } from '../../support/until.mjs';

const get = (target) => `GET ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`;

/**
 * Requests that wait on their connection behind a stream that does not end, and a client that then leaves: what
 * they had taken, a stream's place or a hold on a result, is given back.
 */
export async function pipelined(context, server) {
  const gate = path.join(context.scratch, 'never');
  const done = await submit(server, 'witness', 'infer', { inputs: file('scan.nii') });
  await ended(server, done);
  const form = { inputs: file('scan.nii'), options: steps({ gate }) };
  const [first, second] = [
    await submit(server, 'witness', 'infer', form),
    await submit(server, 'witness', 'infer', form),
  ];
  const connection = await Connection.open(server.url);
  await connection.write(
    get(`/jobs/${first}/logs`) + get(`/jobs/${second}/logs`) + get(`/jobs/${done}/result`),
  );
  await connection.until('accepted: infer');
  connection.close();
  context.count('requests behind a stream that is cut', 2);
  await context.attempt('The log of a job whose stream was asked for behind another', async () => {
    const open = async () => {
      const next = await Connection.open(server.url);
      await next.write(get(`/jobs/${second}/logs`));
      await next.until('\r\n\r\n');
      const isOpen = next.received.includes('200 OK');
      next.close();
      return isOpen;
    };
    await until('its stream can be opened', open, 10_000);
  });
  for (const id of [first, second]) await kill(server, id);
  // Without a grace period it is removed at once, unless the server still counts a download.
  await context.attempt('The result of a job that was asked for behind a stream', async () => {
    await server.kill();
    letTimePass(server);
    await server.start(['--grace', '2']);
    const again = await Connection.open(server.url);
    const waiting = await submit(server, 'witness', 'infer', form);
    await again.write(get(`/jobs/${waiting}/logs`) + get(`/jobs/${done}/result`));
    await again.until('accepted: infer');
    again.close();
    await until('it expires', () => !existsSync(server.jobDirectory(done)), 15_000);
    await kill(server, waiting);
  });
  const { status } = await request(server, '/health');
  context.check(status === 200, `/health answers ${status}`);
}
