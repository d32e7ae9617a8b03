/** Variables of the server's environment that a job may see, for one reason. */
export interface PassedVariables {
  /** Names; `CUDA_*` is every name that begins with `CUDA_`. */
  readonly names: readonly string[];
  /** What they are for. */
  readonly purpose: string;
  /** Only for a job that uses the files or the network that they speak of. */
  readonly only?: 'unsandboxed' | 'network';
}

/**
 * What of the server's environment a job may see: this table, and what `serve --pass-env` adds. A job's environment is
 * built up from it instead of being stripped of what is known to be secret, since nobody knows all that an admin's
 * environment holds.
 */
export const passedVariables: readonly PassedVariables[] = [
  { names: ['PATH', 'LD_LIBRARY_PATH'], purpose: 'where programs and libraries are' },
  { names: ['LANG', 'LANGUAGE', 'LC_*', 'TZ', 'USER', 'LOGNAME'], purpose: 'language, time and name' },
  {
    names: ['PYTHON*', 'VIRTUAL_ENV', 'CONDA_*', 'NODE_PATH', 'R_LIBS*'],
    purpose: 'environments of languages',
  },
  {
    names: ['CUDA_*', 'CUDNN_*', 'CUBLAS_*', 'NVIDIA_*', 'NCCL_*'],
    purpose: 'GPUs and their libraries',
  },
  {
    names: ['OMP_*', 'GOMP_*', 'KMP_*', 'MKL_*', 'OPENBLAS_*', 'NUMEXPR_*', 'TBB_*', 'ITK_*', 'MALLOC_*'],
    purpose: 'threads and memory of libraries for computing',
  },
  {
    names: ['TORCH*', 'PYTORCH_*', 'TRITON_*', 'TF_*', 'XLA_*', 'JAX_*', 'ORT_*'],
    purpose: 'frameworks for models',
  },
  {
    names: ['HF_*', 'HUGGINGFACE_*', 'TRANSFORMERS_*', 'KONFAI_*', 'MONAI_*', 'nnUNet_*'],
    purpose: 'where models are kept',
  },
  { names: ['HOME', 'XDG_*'], purpose: "the user's own files", only: 'unsandboxed' },
  {
    names: [
      'http_proxy',
      'https_proxy',
      'all_proxy',
      'no_proxy',
      'HTTP_PROXY',
      'HTTPS_PROXY',
      'ALL_PROXY',
      'NO_PROXY',
    ],
    purpose: 'the way to other machines',
    only: 'network',
  },
  {
    names: ['SSL_CERT_FILE', 'SSL_CERT_DIR', 'REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE', 'NODE_EXTRA_CA_CERTS'],
    purpose: 'which machines are trusted',
    only: 'network',
  },
];

/** Names that say that a secret is inside: they pass only where the admin names them. */
const secretive = /TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY/i;

const matches = (pattern: string, name: string): boolean =>
  pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;

export interface PassRules {
  readonly isSandboxed: boolean;
  /** Whether the job may use the network. */
  readonly network: boolean;
  /** Names that the admin has added: `serve --pass-env`. */
  readonly added: readonly string[];
}

/**
 * The names of the server's variables that a job gets, sorted.
 * @param environment the server's, without the variables that hold its token
 */
export function passedNames(environment: NodeJS.ProcessEnv, rules: PassRules): string[] {
  const rows = passedVariables.filter(
    ({ only }) => only === undefined || (only === 'network' ? rules.network : !rules.isSandboxed),
  );
  const patterns = rows.flatMap(({ names }) => names);
  return Object.keys(environment)
    .filter(
      (name) =>
        rules.added.includes(name) ||
        (!secretive.test(name) && patterns.some((pattern) => matches(pattern, name))),
    )
    .sort();
}
