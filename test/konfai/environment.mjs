import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { PythonEnvironment } from '../../tools/python-environment.mjs';

export { Skipped } from '../../tools/python-environment.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));

/** 6 GB, kept between runs. */
const environment = new PythonEnvironment(here('../../.cache/konfai'), {
  requirements: here('requirements.txt'),
  probe: 'konfai-apps',
  variable: 'REMOTE_APP_KONFAI_VENV',
  what: 'KonfAI and PyTorch',
  size: 'about 6 GB',
});

/** A program of the environment: `konfai-apps`, `python`. */
export const programOf = (name) => environment.programOf(name);

const programs = path.dirname(programOf('python'));

/** The PATH with KonfAI's programs in front: `serve` and KonfAI's server find the engine there. */
export const withPrograms = `${programs}:${process.env.PATH}`;

/** PATH on which `konfai-apps` is the program of `test/konfai/engine`, and `nvidia-smi` the imitation of the tests. */
export const withStandIns = [here('engine'), here('../fixtures/bin'), withPrograms].join(':');

/**
 * The virtual environment with KonfAI's programs, made at the first run and found at the next.
 * @throws {Skipped} where there is no Python that makes one, or pip reaches no package index
 */
export const prepareEnvironment = (say) => environment.prepare(say);
