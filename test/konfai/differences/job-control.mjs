import { doing, logOf, reaches, stateOf, submit } from '../jobs.mjs';

const kill = (server, id) => server.fetch(`/jobs/${id}/kill`, { method: 'POST' });

/** An ended job of a server. */
async function ended({ server, app }, ...overrides) {
  const id = await submit(server, app, doing(...overrides));
  await reaches(server, id, 'done', 'error');
  return id;
}

export const jobControl = [
  {
    what: 'How long a job is kept after its end',
    theirs: '600 s; a download renews it',
    ours: '120 s; `serve --grace 600` for theirs; a client may ask for more (`--keep 12h`); a download renews it, and is never cut off',
    verdict: 'purpose',
    why: 'the specification says 120 s',
    probe: async (context) => {
      const id = await ended(context);
      const { finished_at: from, expires_at: until } = await stateOf(context.server, id);
      return until
        ? String(Math.round((Date.parse(until) - Date.parse(from)) / 1000))
        : context.constant('RESULT_RETENTION_S');
    },
    seen: ['600', '120'],
  },
  {
    what: 'A job whose time is over',
    theirs: '404 `Unknown job_id`',
    ours: '410, with the time when it was removed',
    verdict: 'better',
    probe: async ({ start, app }) => {
      const server = await start({ grace: 1 });
      const id = await submit(server, app);
      let status = 200;
      while (status === 200) status = (await server.fetch(`/jobs/${id}`)).status;
      await server.stop();
      return String(status);
    },
    seen: ['404', '410'],
  },
  {
    what: 'Jobs when the server is started again',
    theirs: 'forgotten, with their results: 404',
    ours: 'found again; with `--on-exit keep`, or after a crash, running ones go on',
    verdict: 'better',
    probe: async ({ start, app }) => {
      const first = await start({ dataDirectory: 'kept' });
      const id = await submit(first, app);
      await reaches(first, id, 'done');
      await first.stop();
      const second = await start({ dataDirectory: 'kept' });
      const { status } = await second.fetch(`/jobs/${id}/result`);
      await second.stop();
      return String(status);
    },
    seen: ['404', '200'],
  },
  {
    what: 'The result of a job that was killed',
    theirs: '202, for ever: a client waits until its time is over',
    ours: '409 with `"status": "killed"`; `?partial=1` has what it left',
    verdict: 'better',
    probe: async ({ server, app }) => {
      const id = await submit(server, app, doing('SLEEP=60'));
      await reaches(server, id, 'running');
      await kill(server, id);
      await reaches(server, id, 'killed');
      return String((await server.fetch(`/jobs/${id}/result`)).status);
    },
    seen: ['202', '409'],
  },
  {
    what: 'The result of a job that failed, or whose app refused its input',
    theirs: '500, or 422 with the reason',
    ours: 'the same; the reason is on one line',
    verdict: 'same',
    probe: async (context) => {
      const id = await ended(context, 'CODE=3');
      const response = await context.server.fetch(`/jobs/${id}/result`);
      return `${response.status} ${(await response.json()).error}`;
    },
    seen: Array(2).fill('500 Subprocess failed (exit code 3)'),
  },
  {
    what: 'What `GET /jobs/{id}` says',
    theirs: '`job_id`, `status`, `error`',
    ours: 'these, and app, operation, times, GPUs, the place in the queue',
    verdict: 'better',
    probe: async (context) => {
      const record = await stateOf(context.server, await ended(context));
      return ['job_id', 'status', 'error', 'finished_at'].filter((name) => name in record).join(' ');
    },
    seen: ['job_id status error', 'job_id status error finished_at'],
  },
  {
    what: '`GET /jobs`, and removing a job (`DELETE /jobs/{id}`)',
    theirs: '404, 405',
    ours: 'the list, newest first; 200',
    verdict: 'better',
    probe: async (context) => {
      const id = await ended(context);
      const list = await context.server.fetch('/jobs');
      const removal = await context.server.fetch(`/jobs/${id}`, { method: 'DELETE' });
      return `${list.status} ${removal.status}`;
    },
    seen: ['404 405', '200 200'],
  },
  {
    what: 'Killing a job that has ended',
    theirs: '200, and its state',
    ours: 'the same',
    verdict: 'same',
    probe: async (context) => {
      const id = await ended(context);
      const response = await kill(context.server, id);
      return `${response.status} ${(await response.json()).status}`;
    },
    seen: Array(2).fill('200 done'),
  },
  {
    what: 'A result that is downloaded in parts (`Range`)',
    theirs: 'yes; no `HEAD`',
    ours: 'yes, and `HEAD`: our client goes on where a download broke off',
    verdict: 'better',
    probe: async (context) => {
      const where = `/jobs/${await ended(context)}/result`;
      const part = await context.server.fetch(where, { headers: { Range: 'bytes=0-9' } });
      const head = await context.server.fetch(where, { method: 'HEAD' });
      return `${part.status} ${head.status}`;
    },
    seen: ['206 405', '206 200'],
  },
  {
    what: 'The priority of jobs',
    theirs: 'that of the server',
    ours: 'the lowest (nice 19), so that the server answers while they fill the processor',
    verdict: 'purpose',
    why: 'beside other work on a full machine they take longer',
    probe: async ({ server, app, niceOf }) => {
      const id = await submit(server, app, doing('SLEEP=60'));
      await reaches(server, id, 'running');
      const nice = await niceOf(id);
      await kill(server, id);
      await logOf(server, id, { limit: 10_000 });
      return nice;
    },
    seen: ['0', '19'],
  },
];
