import type { DeviceRequest, Grant } from '../index.js';

/** A GPU of this machine. */
export interface KnownGpu {
  readonly id: number;
  /** Stays the same if ids change; empty if it is not known. */
  readonly uuid: string;
}

/** A place in the queue. */
export interface Ticket {
  /** Its number in the order of arrival; null for devices that an earlier server gave. */
  readonly arrival: number | null;
  /** Resolves with the grant. Rejects if the ticket is cancelled, or if there turns out to be no such GPU. */
  readonly granted: Promise<Grant>;
  /** 1 is next; null once granted or cancelled. */
  position(): number | null;
  /** A phrase for what it waits for. */
  readonly waitingFor: string;
  cancel(): void;
}

/** A phrase for what a request asks for. */
export function describe(request: DeviceRequest): string {
  if (request.kind === 'anyGpu') return 'a free GPU';
  if (request.kind === 'cpu') return request.workers === 1 ? 'a CPU slot' : `${request.workers} CPU slots`;
  return `GPU ${request.ids.join(', ')}`;
}

export const gpuGrant = (gpus: readonly KnownGpu[]): Grant => ({
  gpus: gpus.map(({ id }) => id),
  gpuUuids: gpus.map(({ uuid }) => uuid).filter((uuid) => uuid !== ''),
  cpuSlots: 0,
});

/** The job was cancelled while it was waiting. */
export class TicketCancelled extends Error {}
