import { constants } from 'node:os';

/** A signal's number, as shells add it to 128; 0 for a name that this system has not. */
export const signalNumber = (name: string): number =>
  (constants.signals as Readonly<Record<string, number>>)[name] ?? 0;
