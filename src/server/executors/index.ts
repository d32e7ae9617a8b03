/** Where jobs run: the interface of executors, and what they share for devices and a runner's files. */
export * from './executor.js';
export * from './run-files.js';
