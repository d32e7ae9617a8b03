import { describe, expect, test } from 'vitest';
import type { DeviceRequest, Grant } from '../../../src/server/executors/executor.js';
import { Scheduler, type Ticket, TicketCancelled } from '../../../src/server/executors/local/scheduler.js';

/** GPUs in the order of their ids: UUIDs of one letter each. */
const known = (uuids: string) => [...uuids].map((uuid, id) => ({ id, uuid }));

/** A grant of these GPUs, by the ids that they had. */
const holding = (gpus: readonly number[], uuids = ''): Grant => ({ gpus, gpuUuids: [...uuids], cpuSlots: 0 });

/** Requests by name, and what each was granted. */
function queue(gpus: number | null, cpuSlots = 4) {
  const scheduler = new Scheduler(gpus === null ? null : known('abcd'.slice(0, gpus)), cpuSlots);
  const grants: Record<string, Grant> = {};
  const tickets: Record<string, Ticket> = {};
  const ask = (name: string, request: DeviceRequest, isAccepted = false) => {
    const ticket = scheduler.request(request, isAccepted);
    tickets[name] = ticket;
    ticket.granted.then(
      (grant) => {
        grants[name] = grant;
      },
      () => {},
    );
  };
  return {
    scheduler,
    tickets,
    gpus: (name: string, ...ids: number[]) => ask(name, { kind: 'gpus', ids }),
    /** As a job that an earlier server accepted. */
    recovered: (name: string, request: DeviceRequest) => ask(name, request, true),
    any: (...names: string[]) => names.forEach((name) => void ask(name, { kind: 'anyGpu' })),
    cpu: (name: string, workers: number) => ask(name, { kind: 'cpu', workers }),
    release: async (name: string) => {
      await Promise.resolve();
      const grant = grants[name];
      if (!grant) throw new Error(`${name} holds nothing`);
      delete grants[name];
      scheduler.release(grant);
    },
    /** GPUs or CPU slots, by the name of the request that holds them. */
    held: async () => {
      await Promise.resolve();
      return Object.fromEntries(
        Object.entries(grants).map(([name, { gpus, cpuSlots }]) => [
          name,
          cpuSlots > 0 ? `cpu ${cpuSlots}` : gpus.join(),
        ]),
      );
    },
  };
}

describe('GPUs', () => {
  test('GPUs are granted all or none: a job that waits for two holds neither', async () => {
    const { gpus, held, release } = queue(2);
    gpus('a', 0);
    gpus('b', 0, 1);
    expect(await held()).toEqual({ a: '0' });
    await release('a');
    expect(await held()).toEqual({ b: '0,1' });
  });

  test('GPUs are granted in arrival order: no later job gets what an earlier one waits for', async () => {
    const { gpus, any, held, release } = queue(2);
    gpus('a', 0);
    gpus('b', 1, 0);
    gpus('c', 1);
    any('d');
    expect(await held()).toEqual({ a: '0' });
    await release('a');
    expect(await held()).toEqual({ b: '1,0' });
    await release('b');
    expect(await held()).toEqual({ c: '1', d: '0' });
  });

  test('GPUs that no earlier job waits for are granted at once', async () => {
    const { gpus, any, held } = queue(3);
    gpus('a', 0);
    gpus('b', 0, 1);
    gpus('c', 2);
    any('d');
    expect(await held()).toEqual({ a: '0', c: '2' });
  });

  test('GPUs are granted to jobs for any GPU in arrival order, the lowest id first', async () => {
    const { any, held, release } = queue(2);
    any('a', 'b', 'c', 'd');
    expect(await held()).toEqual({ a: '0', b: '1' });
    await release('b');
    expect(await held()).toEqual({ a: '0', c: '1' });
  });

  test('GPUs are granted from the lowest id, in whatever order they are known', async () => {
    const { any, held, scheduler } = queue(null);
    any('a', 'b');
    scheduler.setGpus([
      { id: 2, uuid: 'c' },
      { id: 0, uuid: 'a' },
      { id: 1, uuid: 'b' },
    ]);
    expect(await held()).toEqual({ a: '0', b: '1' });
  });

  test('GPUs are not granted to a later job that names them before an earlier one that takes any', async () => {
    const { gpus, any, held, release } = queue(1);
    gpus('a', 0);
    any('b');
    gpus('c', 0);
    await release('a');
    expect(await held()).toEqual({ b: '0' });
    await release('b');
    expect(await held()).toEqual({ c: '0' });
  });

  test('GPUs are granted to two pairs that share one GPU without a deadlock', async () => {
    const { gpus, held, release } = queue(3);
    gpus('a', 0, 1);
    gpus('b', 1, 2);
    gpus('c', 2, 0);
    expect(await held()).toEqual({ a: '0,1' });
    await release('a');
    expect(await held()).toEqual({ b: '1,2' });
    await release('b');
    expect(await held()).toEqual({ c: '2,0' });
  });

  test('GPUs are granted to a job for many GPUs before later jobs, so that it does not starve', async () => {
    const { gpus, held, release } = queue(2);
    gpus('a', 0);
    gpus('b', 1);
    gpus('wide', 0, 1);
    for (const name of ['c', 'd', 'e']) gpus(name, name === 'd' ? 1 : 0);
    await release('a');
    expect(await held()).toEqual({ b: '1' });
    await release('b');
    expect(await held()).toEqual({ wide: '0,1' });
    await release('wide');
    expect(await held()).toEqual({ c: '0', d: '1' });
  });

  test('GPUs of jobs of an earlier server are held until they are released, also if they are missing', async () => {
    const { scheduler, any, held } = queue(2);
    scheduler.adopt(holding([1, 5]));
    any('a', 'b');
    expect(await held()).toEqual({ a: '0' });
    scheduler.release(holding([1, 5]));
    any('c');
    expect(await held()).toEqual({ a: '0', b: '1' });
  });
});

describe('GPUs that are not known yet', () => {
  test('GPUs that are not known yet are waited for, and granted in arrival order when they are known', async () => {
    const { scheduler, gpus, any, cpu, held, tickets } = queue(null);
    gpus('a', 1);
    any('b', 'c');
    cpu('d', 1);
    expect(await held()).toEqual({ d: 'cpu 1' });
    expect(tickets.a?.position()).toBe(1);
    expect(tickets.a?.waitingFor()).toBe('GPU 1 (nvidia-smi has not told yet which there are)');
    scheduler.setGpus(known('ab'));
    expect(await held()).toEqual({ a: '1', b: '0', d: 'cpu 1' });
    expect(tickets.c?.waitingFor()).toBe('a free GPU');
  });

  test('A job on the CPU does not wait for GPUs that are not known yet', async () => {
    const { cpu, tickets } = queue(null, 1);
    cpu('a', 1);
    cpu('b', 2);
    expect(tickets.b?.waitingFor()).toBe('2 CPU slots');
  });

  test('GPUs that are not known yet are never called impossible before they are known', async () => {
    const { scheduler, gpus, any, held, tickets } = queue(null);
    expect(scheduler.impossible({ kind: 'gpus', ids: [7] })).toBeNull();
    expect(scheduler.impossible({ kind: 'anyGpu' })).toBeNull();
    gpus('a', 0, 7);
    gpus('b', 0);
    any('c');
    scheduler.setGpus(known('a'));
    await expect(tickets.a?.granted).rejects.toThrow('This server has no GPU 7; it has: 0');
    expect(tickets.a?.position()).toBeNull();
    expect(await held()).toEqual({ b: '0' });
    expect(tickets.c?.position()).toBe(1);
  });

  test('GPUs that are not known yet may turn out to be none', async () => {
    const { scheduler, gpus, any, tickets } = queue(null);
    any('a');
    gpus('b', 0);
    scheduler.setGpus([]);
    await expect(tickets.a?.granted).rejects.toThrow('This server has no GPU');
    await expect(tickets.b?.granted).rejects.toThrow('it has: none');
  });

  test('GPUs that are not known yet are not granted while a job of an earlier server holds them', async () => {
    const { scheduler, any, held } = queue(null);
    const earlier = holding([0]);
    const ended = holding([1]);
    scheduler.adopt(earlier);
    scheduler.adopt(ended);
    scheduler.release(ended);
    any('a', 'b');
    scheduler.setGpus(known('ab'));
    expect(await held()).toEqual({ a: '1' });
    scheduler.release(earlier);
    expect(await held()).toEqual({ a: '1', b: '0' });
  });

  test('A job that waits for GPUs that are not known yet can be cancelled', async () => {
    const { scheduler, any, tickets, held } = queue(null);
    any('a', 'b');
    tickets.a?.cancel();
    await expect(tickets.a?.granted).rejects.toThrow(TicketCancelled);
    scheduler.setGpus(known('a'));
    expect(await held()).toEqual({ b: '0' });
  });
});

describe('GPUs whose ids have changed since they were granted', () => {
  test('GPUs whose ids have changed since they were granted are not granted under either id until the job ends', async () => {
    const { scheduler, gpus, any, held } = queue(3);
    // GPU 1 is GPU 0 now, because the first one is gone.
    const earlier = holding([1], 'a');
    scheduler.adopt(earlier);
    gpus('zero', 0);
    gpus('one', 1);
    any('any');
    expect(await held()).toEqual({ any: '2' });
    scheduler.release(earlier);
    expect(await held()).toEqual({ any: '2', zero: '0', one: '1' });
  });

  test('GPUs that become known only later are not granted under a changed id either', async () => {
    const { scheduler, any, held } = queue(null);
    scheduler.adopt(holding([1], 'b'));
    any('a', 'b');
    scheduler.setGpus(known('bxy'));
    expect(await held()).toEqual({ a: '2' });
  });

  test('GPUs whose ids change while the job runs are not granted under either id', async () => {
    const { scheduler, any, gpus, held, release } = queue(1);
    any('a');
    scheduler.setGpus(known('xa'));
    gpus('b', 0);
    gpus('c', 1);
    expect(await held()).toEqual({ a: '0' });
    await release('a');
    expect(await held()).toEqual({ b: '0', c: '1' });
  });

  test('GPUs whose ids have changed since they were granted are noted by UUID in each grant, if there is one', async () => {
    const scheduler = new Scheduler(
      [
        { id: 3, uuid: '' },
        { id: 1, uuid: 'b' },
      ],
      1,
    );
    const request = { kind: 'gpus', ids: [3, 1] } as const;
    expect(await scheduler.request(request).granted).toEqual({ gpus: [3, 1], gpuUuids: ['b'], cpuSlots: 0 });
  });

  test('GPUs whose ids have changed since they were granted and that have no UUID are identified by id alone', async () => {
    const { scheduler, any, held } = queue(null);
    scheduler.adopt(holding([0]));
    scheduler.setGpus([
      { id: 0, uuid: '' },
      { id: 1, uuid: '' },
    ]);
    any('a');
    expect(await held()).toEqual({ a: '1' });
  });
});

describe('a job of an earlier server that waits for a missing GPU', () => {
  test('A job of an earlier server that waits for a missing GPU keeps waiting, says for what, and does not block the other GPUs', async () => {
    const { scheduler, recovered, gpus, held, tickets } = queue(1);
    recovered('gone', { kind: 'gpus', ids: [1] });
    recovered('both', { kind: 'gpus', ids: [0, 1] });
    gpus('a', 0);
    expect(await held()).toEqual({ a: '0' });
    expect(tickets.gone?.waitingFor()).toBe('GPU 1, which this server does not see at the moment');
    expect(tickets.both?.waitingFor()).toBe('GPU 0, 1; this server does not see GPU 1 at the moment');
    scheduler.setGpus(known('ab'));
    expect(await held()).toEqual({ a: '0', gone: '1' });
    expect(tickets.both?.waitingFor()).toBe('GPU 0, 1');
  });

  test('A job of an earlier server that waits for a missing GPU waits for any GPU while there is none', async () => {
    const { scheduler, recovered, held, tickets } = queue(0);
    recovered('a', { kind: 'anyGpu' });
    expect(tickets.a?.waitingFor()).toBe('a free GPU; this server does not see any at the moment');
    scheduler.setGpus(known('a'));
    expect(await held()).toEqual({ a: '0' });
  });

  test('A job of an earlier server that waits for a missing GPU also waits if the GPUs become known later, while a new job fails', async () => {
    const { scheduler, recovered, gpus, tickets } = queue(null);
    recovered('earlier', { kind: 'gpus', ids: [7] });
    gpus('new', 7);
    scheduler.setGpus(known('a'));
    await expect(tickets.new?.granted).rejects.toThrow('This server has no GPU 7; it has: 0');
    expect(tickets.earlier?.position()).toBe(1);
    tickets.earlier?.cancel();
    await expect(tickets.earlier?.granted).rejects.toThrow(TicketCancelled);
  });
});

describe('CPU slots', () => {
  test('CPU slots are granted in arrival order, never out of turn', async () => {
    const { cpu, held, release } = queue(0, 4);
    cpu('a', 3);
    cpu('b', 2);
    cpu('c', 1);
    expect(await held()).toEqual({ a: 'cpu 3' });
    await release('a');
    expect(await held()).toEqual({ b: 'cpu 2', c: 'cpu 1' });
  });

  test('CPU slots are all granted to a job that asks for more', async () => {
    const { cpu, held } = queue(0, 4);
    cpu('a', 100);
    cpu('b', 1);
    expect(await held()).toEqual({ a: 'cpu 4' });
  });

  test('CPU slots and GPUs do not wait for each other', async () => {
    const { cpu, gpus, any, held } = queue(1, 1);
    gpus('a', 0);
    gpus('b', 0);
    cpu('c', 1);
    cpu('d', 1);
    any('e');
    expect(await held()).toEqual({ a: '0', c: 'cpu 1' });
  });

  test('CPU slots of an earlier server may be more than there are now', async () => {
    const { scheduler, cpu, held } = queue(0, 1);
    scheduler.adopt({ gpus: [], gpuUuids: [], cpuSlots: 3 });
    cpu('a', 1);
    expect(await held()).toEqual({});
    scheduler.release({ gpus: [], gpuUuids: [], cpuSlots: 3 });
    expect(await held()).toEqual({ a: 'cpu 1' });
  });
});

describe('a place in the queue', () => {
  test('A place in the queue is by arrival, be it for a GPU or for a CPU slot', async () => {
    const { any, cpu, tickets, held } = queue(1, 1);
    any('a');
    cpu('b', 1);
    any('c');
    cpu('d', 1);
    any('e');
    await held();
    expect(['c', 'd', 'e'].map((name) => tickets[name]?.position())).toEqual([1, 2, 3]);
  });

  test('A place in the queue counts from 1, moves up, and is null after the grant', async () => {
    const { any, gpus, tickets, release, held } = queue(1);
    any('a', 'b');
    gpus('c', 0);
    await held();
    const places = () => ['a', 'b', 'c'].map((name) => tickets[name]?.position());
    expect(places()).toEqual([null, 1, 2]);
    expect([tickets.b?.waitingFor(), tickets.c?.waitingFor()]).toEqual(['a free GPU', 'GPU 0']);
    await release('a');
    expect(places()).toEqual([null, null, 1]);
  });

  test('A place in the queue that is cancelled is rejected, and unblocks the jobs after it', async () => {
    const { gpus, tickets, held } = queue(2);
    gpus('a', 0);
    gpus('wide', 0, 1);
    gpus('c', 1);
    tickets.wide?.cancel();
    await expect(tickets.wide?.granted).rejects.toThrow(TicketCancelled);
    expect(await held()).toEqual({ a: '0', c: '1' });
    expect(tickets.wide?.position()).toBeNull();
  });

  test('A place in the queue cannot be cancelled after the grant', async () => {
    const { any, tickets, held, release } = queue(1);
    any('a');
    tickets.a?.cancel();
    expect(await held()).toEqual({ a: '0' });
    await release('a');
  });
});
