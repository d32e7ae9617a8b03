import { fileURLToPath } from 'node:url';
// Before ONNX Runtime is loaded.
import './without-telemetry.mjs';
import { env, InferenceSession, Tensor } from 'onnxruntime-node';
import { usableProcessors } from './processors.mjs';

// Its errors are thrown as well. Without this it prints each of them in red before.
env.logLevel = 'fatal';

const fileOf = (name) => fileURLToPath(new URL(`../model/${name}.onnx`, import.meta.url));

/** The networks that are loaded, and for which devices. */
let loaded;

/**
 * Loads both networks, or returns those that are loaded for these devices.
 * @param devices `gpu`, a list of ids, or `cpu`, the number of threads that the server has granted
 * @returns `runBox` and `runBrain`, which take voxels of a cube (128 or 256 on each side, the last axis fastest) and return
 *   the probability of brain of each; and `device`, a sentence for the log
 */
export async function loadNetworks({ gpu, cpu }) {
  // Beside a GPU too: a container may be allowed a part of the processors that the system counts.
  const threads = cpu ?? (await usableProcessors());
  const key = `${gpu} ${threads}`;
  if (loaded?.key === key) return loaded;
  await Promise.all((loaded?.sessions ?? []).map((session) => session.release()));
  loaded = undefined;
  const { device, provider } = await findDevice(gpu, threads);
  const sessions = await createSessions(provider, threads);
  const [runBox, runBrain] = sessions.map((session) => async (cube) => {
    const side = Math.round(Math.cbrt(cube.length));
    const { brain } = await session.run({ scan: new Tensor('float32', cube, [1, 1, side, side, side]) });
    return brain.data;
  });
  loaded = { key, sessions, device, runBox, runBrain };
  return loaded;
}

const createSessions = (provider, threads) =>
  Promise.all(
    ['box', 'brain'].map((name) =>
      InferenceSession.create(fileOf(name), {
        executionProviders: [provider],
        intraOpNumThreads: threads,
        // A worker shall give its memory back between two jobs: 0.7 GB, for a tenth of the time.
        enableCpuMemArena: false,
        enableMemPattern: false,
      }),
    ),
  );

/** The GPU if there is one and ONNX Runtime can use it, otherwise the CPU. */
async function findDevice(gpu, threads) {
  const onCpu = { provider: 'cpu', device: `the CPU with ${threads} thread${threads === 1 ? '' : 's'}` };
  if (gpu === undefined) return onCpu;
  // The server shows a job its own GPUs alone, so that they count from 0.
  const provider = { name: 'cuda', deviceId: process.env.CUDA_VISIBLE_DEVICES ? 0 : gpu[0] };
  try {
    const session = await InferenceSession.create(fileOf('box'), { executionProviders: [provider] });
    await session.release();
    return { provider, device: `GPU ${gpu[0]}` };
  } catch {
    return {
      ...onCpu,
      device: `${onCpu.device}: GPU ${gpu.join(', ')} was given, but ONNX Runtime has no CUDA libraries here (README.md of this app says how to install them)`,
    };
  }
}
