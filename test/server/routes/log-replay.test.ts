import { describe, expect, test } from 'vitest';
import { least, steps } from '../../support/form.js';
import { linesOf } from '../../support/log-lines.mjs';
import { sharedServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';

const server = sharedServer({ flags: ['--keepalive', '1'] });
const { api } = server;

describe('a log stream', () => {
  test('A log stream replays the log from its first line for a late client', async () => {
    const { id, log } = await api.run('infer', { ...least.infer, ...steps('print=a', 'print=b') });
    expect(await api.log(id)).toBe(log);
    expect(await api.log(id)).toBe(log);
  });

  test('A log stream of a running job replays the log so far, and then follows it', async () => {
    const gate = server.gate();
    const form = { ...least.infer, ...steps('print=early', `wait=${gate.path}`, 'print=late') };
    const id = await api.running('infer', form, 'early');
    await using log = await api.follow(id);
    await log.until('early');
    expect(log.lines).not.toContain('late');
    gate.open();
    expect(linesOf(await log.end()).filter((line) => !line.startsWith('['))).toEqual([
      'probe infer',
      'early',
      'late',
      '__DONE__',
    ]);
  });

  test('A log stream sends only a comment every keep-alive interval while the job is silent', async () => {
    const gate = server.gate();
    const { job_id: id } = await api.accepted('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    await using log = await api.follow(id);
    await log.until('probe infer');
    const before = log.text.length;
    const start = performance.now();
    await until('two keep-alives', () => log.text.slice(before) === ': keepalive\n\n'.repeat(2));
    expect(performance.now() - start).toBeGreaterThan(1500);
    expect(performance.now() - start).toBeLessThan(4000);
    gate.open();
    expect((await log.end()).slice(before)).toMatch(/^(: keepalive\n\n){2,}data: \[remote-app\] Result/);
  });
});

describe('a line that ends with a carriage return', () => {
  const printed = Buffer.from('\r10 %\r99 %\r100 %\nnext\r\n').toString('base64');

  test('A line that ends with a carriage return is like any other, unless the client asks for redraws', async () => {
    const { id } = await api.run('infer', { ...least.infer, ...steps(`bytes=${printed}`) });
    const bar = (text: string) =>
      text.slice(text.indexOf('probe infer\n\n') + 13, text.indexOf('[remote-app] Result'));
    expect(bar(await api.log(id))).toBe(
      'data: \n\ndata: 10 %\n\ndata: 99 %\n\ndata: 100 %\n\ndata: next\n\ndata: ',
    );
    expect(bar(await api.log(id, '?redraws=yes'))).toBe(
      'event: redraw\ndata: \n\nevent: redraw\ndata: 10 %\n\nevent: redraw\ndata: 99 %\n\n' +
        'data: 100 %\n\ndata: next\n\ndata: ',
    );
    expect(await api.log(id, '?redraws=0')).toBe(await api.log(id));
    expect((await api.log(id, '?redraws=1&since=3')).replaceAll('event: redraw\n', '')).toBe(
      await api.log(id, '?since=3'),
    );
    expect((await api.fetch(`/jobs/${id}/logs?redraws=perhaps`)).status).toBe(422);
  });
});

describe('a tail', () => {
  test('A tail contains the last lines of the log, numbered, followed by new lines', async () => {
    const gate = server.gate();
    const form = { ...least.infer, ...steps('lines=5000', `wait=${gate.path}`, 'print=late') };
    const id = await api.running('infer', form, 'line 5000');
    const whole = await api.follow(id, '?since=0');
    await whole.until('line 5000');
    const events = whole.text.split('\n\n').slice(0, -1);
    await whole[Symbol.asyncDispose]();
    await using log = await api.follow(id, '?tail=3');
    await log.until('line 5000');
    expect(log.text.split('\n\n').slice(0, -1)).toEqual(events.slice(-3));
    gate.open();
    const end = await log.end();
    expect(end).toMatch(/line 5000\n\nid: \d+\ndata: late\n/);
    expect(await api.log(id, '?tail=9999')).toBe(await api.log(id, '?since=0'));
    expect(await api.log(id, '?tail=0')).toBe('data: __DONE__\n\n');
    expect(await api.log(id, '?tail=1&since=2')).toBe(await api.log(id, '?since=2'));
    expect((await api.fetch(`/jobs/${id}/logs?tail=-1`)).status).toBe(422);
  });
});

describe('a position', () => {
  const numbered = (text: string) =>
    text
      .split('\n\n')
      .slice(0, -1)
      .map((event) => /^id: (\d+)\ndata: (.*)$/.exec(event)?.slice(1) ?? event);

  test('A position skips that many lines, and numbers the others', async () => {
    const { id, log } = await api.run('infer', { ...least.infer, ...steps('print=a', 'print=b') });
    const lines = linesOf(log).slice(0, -1);
    const all = lines.map((line, index) => [String(index + 1), line]);
    expect(numbered(await api.log(id, '?since=0'))).toEqual([...all, 'data: __DONE__']);
    expect(numbered(await api.log(id, '?since=3'))).toEqual([...all.slice(3), 'data: __DONE__']);
  });

  test('A position may be sent as Last-Event-ID, as browsers do', async () => {
    const { id } = await api.run('infer', { ...least.infer, ...steps('print=a') });
    expect(await api.log(id, '', { 'Last-Event-ID': '2' })).toBe(await api.log(id, '?since=2'));
    expect(await api.log(id, '?since=4', { 'Last-Event-ID': '1' })).toBe(await api.log(id, '?since=4'));
    // Whose address is that of the first time.
    expect(await api.log(id, '?since=0', { 'Last-Event-ID': '2' })).toBe(await api.log(id, '?since=2'));
  });

  test('A position at the end, or past it, leaves only the marker', async () => {
    const { id, log } = await api.run('infer', least.infer);
    const count = linesOf(log).length - 1;
    expect(await api.log(id, `?since=${count}`)).toBe('data: __DONE__\n\n');
    expect(await api.log(id, '?since=999999')).toBe('data: __DONE__\n\n');
  });

  test('A position sends each line exactly once to a reader whose connection broke', async () => {
    const gate = server.gate();
    const form = { ...least.infer, ...steps('lines=500', `wait=${gate.path}`, 'lines=500') };
    const { job_id: id } = await api.accepted('infer', form);
    const read: string[] = [];
    {
      await using log = await api.follow(id, '?since=0');
      await log.until('line 500');
      read.push(...log.lines);
    }
    gate.open();
    await api.reaches(id, 'done');
    read.push(...linesOf(await api.log(id, `?since=${read.length}`)));
    expect(read).toEqual(linesOf(await api.log(id)));
    expect(read.filter((line) => line === 'line 500').length).toBe(2);
  });

  test.for(['-1', 'abc', '1.5', '', '1&since=2'])(
    'A position given as since=%s is refused',
    async (since) => {
      const { id } = await api.run('infer', least.infer);
      const response = await api.fetch(`/jobs/${id}/logs?since=${since}`);
      expect(response.status).toBe(422);
      expect(((await response.json()) as { detail: string }).detail).toContain("'since'");
    },
  );

  test('A position in an invalid header is ignored', async () => {
    const { id, log } = await api.run('infer', least.infer);
    expect(await api.log(id, '', { 'Last-Event-ID': 'abc' })).toBe(log);
  });
});
