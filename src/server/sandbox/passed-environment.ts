/** Variables of the server's environment that a job may see, for one reason. */
interface PassedVariables {
  /** Names; `CUDA_*` is every name that begins with `CUDA_`. */
  readonly names: readonly string[];
  /** What they are for. */
  readonly purpose: string;
  /** Only for a job that uses the files or the network that the variables refer to. */
  readonly only?: 'unsandboxed' | 'network';
}

/**
 * The part of the server's environment that a job may see: this table, and what `serve --pass-env` adds. A job's
 * environment is built from this list instead of removing known secrets, since nobody knows everything that an admin's
 * environment contains.
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

/** Parts of variable names that indicate a secret. */
const secretParts = /TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY/i;

/** The same, but only as a whole word: `HF_PAT`, and not `HF_PATH`. */
const secretWords =
  /(?<![a-z])(PASS|PWD|PAT|O?AUTH|AUTHORIZATION|BEARER|COOKIES?|SESSION|CREDS?|JWT)(?![a-z])/i;

/** A URL with a password: `https://user:password@host`. */
const addressWithPassword = /:\/\/[^\s/?#:]*:[^\s/?#]*@/;

const matches = (pattern: string, name: string): boolean =>
  pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;

interface PassRules {
  readonly isSandboxed: boolean;
  /** Whether the job may use the network. */
  readonly network: boolean;
  /** Names added by the admin: `serve --pass-env`. */
  readonly added: readonly string[];
}

/**
 * The names of the server's variables that a job gets, sorted. A variable whose name or value indicates a secret is
 * passed only if the admin names it. The address of a proxy is passed with its password, because a job has no network
 * without it.
 * @param environment the server's, without the variables that hold its token
 */
export function passedNames(environment: NodeJS.ProcessEnv, rules: PassRules): string[] {
  const rows = passedVariables.filter(
    ({ only }) => only === undefined || (only === 'network' ? rules.network : !rules.isSandboxed),
  );
  const isPassed = (name: string): boolean => {
    if (rules.added.includes(name)) return true;
    const row = rows.find(({ names }) => names.some((pattern) => matches(pattern, name)));
    if (!row || secretParts.test(name) || secretWords.test(name)) return false;
    return row.only === 'network' || !addressWithPassword.test(environment[name] ?? '');
  };
  return Object.keys(environment).filter(isPassed).sort();
}
