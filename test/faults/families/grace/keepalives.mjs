import { file } from '../../../support/form.mjs';
import { requestHead } from '../../../support/multipart.mjs';
import { kill, steps, submit } from '../../support/api.mjs';
import { Connection } from '../../support/connection.mjs';
import { Preload } from '../../support/preload.mjs';
import { apps, Server } from '../../support/server.mjs';
import { until } from '../../support/until.mjs';

/** A reader of a silent log gets keep-alives, whatever the wall clock does. */
export async function keepalivesGoOn(context, seconds) {
  context.count('a jump of the clock under a log stream');
  const preload = Preload.build(context);
  const server = await new Server(context, {
    apps: [apps.rogue],
    environment: preload.environment,
    flags: ['--keepalive', '1'],
  }).start();
  try {
    const id = await submit(server, 'rogue', 'infer', {
      inputs: file('scan.nii'),
      options: steps({ do: 'sleep' }),
    });
    const connection = await Connection.open(server.url);
    await connection.write(requestHead('GET', `/jobs/${id}/logs`));
    const keepalives = () => connection.received.toString('latin1').split(': keepalive').length - 1;
    await until('a first keep-alive comes', () => keepalives() >= 1, 15_000);
    preload.setClock(seconds);
    const before = keepalives();
    await until('keep-alives go on', () => keepalives() >= before + 2, 8000).catch(() =>
      context.violation(
        `After a jump of the clock by ${seconds} s a silent log stream gets no keep-alive in 8 s`,
      ),
    );
    connection.close();
    await kill(server, id);
  } finally {
    await server.close();
  }
}
