/** Executors, which run jobs: their interface, and what they share for devices and the files of runners. */
export * from './executor.js';
export * from './run-files.js';
