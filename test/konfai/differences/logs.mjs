import { doing, logOf, reaches, submit } from '../jobs.mjs';

const lines = 50_000;
const isLine = (line) => /^line \d{6} of the log$/.test(line);

export const logs = [
  {
    what: 'A log of 50,000 lines, read after the job has ended',
    theirs: 'the last 10,000 lines',
    ours: 'all lines',
    verdict: 'better',
    probe: async ({ server, app }) => {
      const id = await submit(server, app, doing(`LINES=${lines}`));
      await reaches(server, id, 'done');
      const arrived = (await logOf(server, id)).filter(isLine).length;
      return arrived === lines ? 'all' : arrived > 0 && arrived <= 10_000 ? 'the last' : String(arrived);
    },
    seen: ['the last', 'all'],
  },
  {
    what: 'A log that is read again, or continued after the connection broke',
    theirs: 'lines that were sent once are lost',
    ours: 'complete each time; `?since=N` or `Last-Event-ID` continues after line N',
    verdict: 'better',
    probe: async ({ server, app }) => {
      const id = await submit(server, app, doing('LINES=10'));
      await reaches(server, id, 'done');
      const first = (await logOf(server, id)).filter(isLine).length;
      // A stream of theirs that has nothing more to send says so at its first keep-alive, after 15 s.
      const second = (await logOf(server, id, { limit: 3000 })).filter(isLine).length;
      return `${first} ${second}`;
    },
    seen: ['10 0', '10 10'],
  },
  {
    what: 'A second reader of a log while the first is still reading',
    theirs: 'the connection breaks',
    ours: '429 with a message',
    verdict: 'better',
    probe: async ({ server, app }) => {
      const id = await submit(server, app, doing('SLEEP=60'));
      await reaches(server, id, 'running');
      const abort = new AbortController();
      const first = await server.fetch(`/jobs/${id}/logs`, { signal: abort.signal });
      const reader = first.body.getReader();
      await reader.read();
      const [second] = await logOf(server, id).catch(({ message }) => [message]);
      abort.abort();
      await reader.read().catch(() => null);
      await server.fetch(`/jobs/${id}/kill`, { method: 'POST' });
      return second;
    },
    seen: ['broken off', 'answered 429'],
  },
  {
    what: 'The end of the log of a job that failed',
    theirs: '`__ERROR__ reason`, then `__DONE__` if the client reads on',
    ours: '`__ERROR__ reason`',
    verdict: 'better',
    probe: async ({ server, app }) => {
      const id = await submit(server, app, doing('CODE=3'));
      await reaches(server, id, 'error');
      await logOf(server, id);
      return (await logOf(server, id, { limit: 3000 })).at(-1);
    },
    seen: ['__DONE__', '__ERROR__ Subprocess failed (exit code 3)'],
  },
  {
    what: "The service's own lines in the log",
    theirs: 'begin with `[KonfAI-Apps] `',
    ours: 'begin with `[remote-app] `',
    verdict: 'purpose',
    why: 'the prefix names the program; no client depends on it',
    probe: async ({ server, app }) => {
      const id = await submit(server, app);
      return (await logOf(server, id))[0].split(' ')[0];
    },
    seen: ['[KonfAI-Apps]', '[remote-app]'],
  },
];
