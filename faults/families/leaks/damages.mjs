import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const release = (gate) => writeFileSync(`${gate}1`, '');

/** What may become of a running job's directory. */
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
    // It may have been made anew meanwhile: then that is the case.
    if (!existsSync(path.join(directory, 'log'))) mkdirSync(path.join(directory, 'log'));
    release(gate);
  },
};
