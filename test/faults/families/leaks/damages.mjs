import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const release = (gate) => writeFileSync(`${gate}1`, '');

/** Damages to a running job's directory. */
export const damages = {
  'no output folder'(directory, gate) {
    rmSync(path.join(directory, 'Output'), { recursive: true, force: true });
    release(gate);
  },
  'a file in place of its output'(directory, gate) {
    rmSync(path.join(directory, 'Output'), { recursive: true, force: true });
    writeFileSync(path.join(directory, 'Output'), '');
    release(gate);
  },
  'a folder in place of its result'(directory, gate) {
    mkdirSync(path.join(directory, 'result.zip', 'x'), { recursive: true });
    release(gate);
  },
  'no input'(directory, gate) {
    rmSync(path.join(directory, 'Input'), { recursive: true, force: true });
    release(gate);
  },
  'no log'(directory, gate) {
    rmSync(path.join(directory, 'log'), { force: true });
    release(gate);
  },
  'a folder in place of its log'(directory, gate) {
    rmSync(path.join(directory, 'log'), { force: true });
    try {
      mkdirSync(path.join(directory, 'log'));
    } catch (cause) {
      // The file may have been made again meanwhile, which is a case of its own.
      if (cause.code !== 'EEXIST') throw cause;
    }
    release(gate);
  },
};
