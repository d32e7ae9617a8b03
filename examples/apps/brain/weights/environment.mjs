import { fileURLToPath } from 'node:url';
import { PythonEnvironment } from '../../../../tools/python-environment.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));

/** Python with the package deepbet, PyTorch and what writes ONNX. Only `npm run weights` and `npm run test:brain` need it. */
export const environment = new PythonEnvironment(here('../../../../.cache/brain'), {
  requirements: here('requirements.txt'),
  probe: 'deepbet',
  variable: 'REMOTE_APP_BRAIN_VENV',
  what: 'deepbet and PyTorch',
  size: 'up to 6 GB',
});

/** The words that write the networks and what is known of their source into a directory. */
export const makeWeights = (directory) => [environment.programOf('python'), here('make.py'), directory];
