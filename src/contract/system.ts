/** What `GET /health` answers with, exactly. */
export const healthy = { status: 'ok' } as const;

/** What `GET /available_devices` answers with. */
export interface DeviceList {
  /** GPU ids as nvidia-smi gives them. */
  readonly devices_index: readonly number[];
  readonly devices_name: readonly string[];
}

/** RAM or VRAM; 1 GB is 1024^3 bytes. */
export interface MemoryUse {
  readonly used_gb: number;
  readonly total_gb: number;
}
