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
    what: 'How long a job is kept after it ends',
    theirs: '600 s; a download restarts the time',
    ours: '120 s (600 s with `serve --grace 600`); a client may ask for more (`--keep 12h`); a download restarts the time, and is never cut off',
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
    what: 'A job that has expired',
    theirs: '404 `Unknown job_id`',
    ours: '410, with the time at which it was removed',
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
    what: 'Jobs after the server restarts',
    theirs: 'forgotten, with their results: 404',
    ours: 'kept; with `--on-exit keep`, or after a crash, running jobs continue',
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
    theirs: 'always 202: a client waits until it times out',
    ours: '409 with `"status": "killed"`; `?partial=1` returns the files that the job wrote',
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
    ours: 'the same, with the reason on one line',
    verdict: 'same',
    probe: async (context) => {
      const id = await ended(context, 'CODE=3');
      const response = await context.server.fetch(`/jobs/${id}/result`);
      return `${response.status} ${(await response.json()).error}`;
    },
    seen: Array(2).fill('500 Subprocess failed (exit code 3)'),
  },
  {
    what: 'What `GET /jobs/{id}` returns',
    theirs: '`job_id`, `status`, `error`',
    ours: 'the same fields, and app, operation, times, GPUs and the place in the queue',
    verdict: 'better',
    probe: async (context) => {
      const record = await stateOf(context.server, await ended(context));
      return ['job_id', 'status', 'error', 'finished_at'].filter((name) => name in record).join(' ');
    },
    seen: ['job_id status error', 'job_id status error finished_at'],
  },
  {
    what: 'Listing jobs (`GET /jobs`), and removing one (`DELETE /jobs/{id}`)',
    theirs: '404; 405',
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
    theirs: '200, with the state of the job',
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
    what: 'Downloading a result in parts (`Range`)',
    theirs: 'supported, but not `HEAD`',
    ours: 'supported, and `HEAD` too: our client continues a download where it broke off',
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
    theirs: 'the same as the server',
    ours: 'the lowest (nice 19), so that the server still answers while jobs use the whole processor',
    verdict: 'purpose',
    why: 'jobs take longer if the machine is busy with other work',
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
