import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { isRunning } from '../../support/processes.mjs';
import { processesUnder } from './processes.mjs';

const wellBehaved = fileURLToPath(new URL('../../fixtures/bin/nvidia-smi', import.meta.url));

/** What nvidia-smi does in each mode; `$real` is the imitation that works. */
const script = `#!/bin/sh
here=\${0%/*}
export FAKE_NVIDIA_SMI="$here/"
real='${wellBehaved}'
case $(cat "$here/mode") in
  exit9) echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."; exit 9 ;;
  exit255) echo 'Unable to determine the device handle for GPU 0000:01:00.0: Unknown Error'; exit 255 ;;
  crash) kill -SEGV $$ ;;
  hang) exec sleep 3600 ;;
  stubborn) trap '' TERM; while :; do sleep 3600; done ;;
  grandchild) sleep 3600 & wait ;;
  leftover) "$real" "$@"; sleep 3600 & exit 0 ;;
  garbage) head -c 3000 /dev/urandom ;;
  prose) echo 'Mon Nov 21 13:45:00'; echo '| NVIDIA-SMI 570.133.20 |' ;;
  half) "$real" "$@" | head -c 75 ;;
  flood) yes '0, GPU-0, NVIDIA' | head -c 300000000 ;;
  empty) exit 0 ;;
  none) echo 'No devices were found'; exit 6 ;;
  slow) sleep 2; exec "$real" "$@" ;;
  *) exec "$real" "$@" ;;
esac
`;

/** An nvidia-smi whose behaviour can be changed while a server uses it. */
export class FakeGpus {
  constructor(context, count) {
    this.directory = path.join(context.scratch, `nvidia-smi-${context.serial()}`);
    mkdirSync(this.directory);
    writeFileSync(path.join(this.directory, 'nvidia-smi'), script, { mode: 0o755 });
    this.environment = { PATH: `${this.directory}:${process.env.PATH}`, FAKE_GPUS: String(count) };
    this.mode = 'ok';
  }

  set mode(name) {
    const file = path.join(this.directory, 'mode');
    writeFileSync(`${file}.new`, name);
    renameSync(`${file}.new`, file);
  }

  /** Its processes that still run, also under another program. */
  processes() {
    return processesUnder(this.directory);
  }

  /** Ends what is left. */
  clear() {
    for (const { pid } of this.processes()) if (isRunning(pid)) process.kill(pid, 'SIGKILL');
  }
}
