import { describe, expect, test } from 'vitest';
import type { DeviceRequest, Grant } from '../../../src/server/executors/executor.js';
import { Scheduler, type Ticket, TicketCancelled } from '../../../src/server/executors/local/scheduler.js';
import { deviceOrder } from './support.js';

/** GPUs in the order of their ids: UUIDs of one letter each. */
const known = (uuids: string) => [...uuids].map((uuid, id) => ({ id, uuid }));

/** A grant of these GPUs, by the ids that they had. */
const holding = (gpus: readonly number[], uuids = ''): Grant => ({ gpus, gpuUuids: [...uuids], cpuSlots: 0 });

/** A job of an earlier server. */
const admins = deviceOrder({ kind: 'anyGpu' });

/** Requests by name, and what each was granted. */
function queue(gpus: number | null, cpuSlots = 4) {
  const scheduler = new Scheduler(gpus === null ? null : known('abcd'.slice(0, gpus)), cpuSlots);
  const grants: Record<string, Grant> = {};
  const tickets: Record<string, Ticket> = {};
  const ask = (name: string, request: DeviceRequest, isAccepted = false) => {
    const ticket = scheduler.request(deviceOrder(request, { isAccepted }));
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
});

describe('GPUs that are not known yet', () => {
  test('GPUs that are not known yet may turn out not to exist', async () => {
    const { scheduler, gpus, any, tickets } = queue(null);
    any('a');
    gpus('b', 0);
    scheduler.setGpus([]);
    await expect(tickets.a?.granted).rejects.toThrow('This server has no GPU');
    await expect(tickets.b?.granted).rejects.toThrow('it has: none');
  });
});

describe('GPUs whose ids have changed since they were granted', () => {
  test('GPUs that become known only later are not granted under a changed id either', async () => {
    const { scheduler, any, held } = queue(null);
    scheduler.adopt(holding([1], 'b'), admins);
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

  test('GPUs whose ids have changed since they were granted are identified by the UUID in each grant, if there is one', async () => {
    const scheduler = new Scheduler(
      [
        { id: 3, uuid: '' },
        { id: 1, uuid: 'b' },
      ],
      1,
    );
    const request = { kind: 'gpus', ids: [3, 1] } as const;
    expect(await scheduler.request(deviceOrder(request)).granted).toEqual({
      gpus: [3, 1],
      gpuUuids: ['b'],
      cpuSlots: 0,
    });
  });

  test('GPUs whose ids have changed since they were granted and that have no UUID are identified by id alone', async () => {
    const { scheduler, any, held } = queue(null);
    scheduler.adopt(holding([0]), admins);
    scheduler.setGpus([
      { id: 0, uuid: '' },
      { id: 1, uuid: '' },
    ]);
    any('a');
    expect(await held()).toEqual({ a: '1' });
  });
});

describe('a job of an earlier server that waits for a missing GPU', () => {
  test('A job of an earlier server that waits for a missing GPU keeps waiting, reports what for, and does not block the other GPUs', async () => {
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

  test('CPU slots of an earlier server may be more than there are now', async () => {
    const { scheduler, cpu, held } = queue(0, 1);
    const former = { gpus: [], gpuUuids: [], cpuSlots: 3 };
    scheduler.adopt(former, admins);
    cpu('a', 1);
    expect(await held()).toEqual({});
    scheduler.release(former);
    expect(await held()).toEqual({ a: 'cpu 1' });
  });
});

describe('a place in the queue', () => {
  test('A place in the queue depends on the arrival time, for a GPU as for a CPU slot', async () => {
    const { any, cpu, tickets, held } = queue(1, 1);
    any('a');
    cpu('b', 1);
    any('c');
    cpu('d', 1);
    any('e');
    await held();
    expect(['c', 'd', 'e'].map((name) => tickets[name]?.position())).toEqual([1, 2, 3]);
  });

  test('A place in the queue cannot be cancelled after the grant', async () => {
    const { any, tickets, held, release } = queue(1);
    any('a');
    tickets.a?.cancel();
    expect(await held()).toEqual({ a: '0' });
    await release('a');
  });
});
