import { announce, doing, inferForm, logOf, post, reaches, submit } from '../jobs.mjs';

const statusOf = async (response) => String((await response).status);

/** The status of an infer form with these values, and the error's kind: a sentence, or a list that FastAPI makes. */
async function refusal({ server, app }, values) {
  const response = await post(server, app, inferForm(values));
  const { detail } = await response.json();
  return `${response.status} ${Array.isArray(detail) ? 'list' : 'sentence'}`;
}

export const submissions = [
  {
    what: 'A wrong token, or an app that is not served',
    theirs: 'refused after the whole upload has arrived',
    ours: 'refused before any byte of the upload',
    verdict: 'better',
    probe: async ({ server, app }) => {
      const right = { Authorization: `Bearer ${server.token}` };
      const token = await announce(server, `/apps/${app}/infer`, { Authorization: 'Bearer wrong' });
      return `${token} ${await announce(server, '/apps/nowhere/infer', right)}`;
    },
    seen: ['none none', '401 404'],
  },
  {
    what: 'The messages of 401, and of 404 for an app or a job',
    theirs: '`Missing bearer token`, `Invalid token`, `Unknown app`, `Unknown job_id`',
    ours: 'the same',
    verdict: 'same',
    probe: async ({ server }) => {
      const details = [
        fetch(`${server.url}/health`),
        fetch(`${server.url}/health`, { headers: { Authorization: 'Bearer wrong' } }),
        post(server, 'nowhere', inferForm()),
        server.fetch('/jobs/000000000000'),
      ].map(async (sent) => {
        const response = await sent;
        const { detail } = await response.json();
        return `${response.status} ${detail}`;
      });
      return (await Promise.all(details)).join(', ');
    },
    seen: Array(2).fill(
      "401 Missing bearer token, 401 Invalid token, 404 Unknown app 'nowhere', 404 Unknown job_id",
    ),
  },
  {
    what: '`inputs_groups`, `gt_groups`, `mask_groups`',
    theirs: 'required: 422 if missing',
    ours: 'optional: if missing, all files are one group',
    verdict: 'purpose',
    why: 'the specification says so; a client that sends them gets the same from both',
    probe: ({ server, app }) => statusOf(post(server, app, inferForm({ inputs_groups: null }))),
    seen: ['422', '200'],
  },
  {
    what: 'The message of a 422',
    theirs: 'a sentence, or a list of objects if a value has the wrong type',
    ours: 'always a sentence that names the field',
    verdict: 'better',
    probe: (context) => refusal(context, { tta: 'many' }),
    seen: ['422 list', '422 sentence'],
  },
  {
    what: 'An unknown option, or an option of another operation',
    theirs: '422',
    ours: '422',
    verdict: 'same',
    probe: ({ server, app }) => statusOf(post(server, app, inferForm({ options: { gain: 1 } }))),
    seen: ['422', '422'],
  },
  {
    what: 'Options with impossible values (`patch_size: [-1]`, `batch_size: -2`)',
    theirs: 'accepted; the job fails',
    ours: '422',
    verdict: 'better',
    probe: ({ server, app }) => statusOf(post(server, app, inferForm({ options: { patch_size: [-1] } }))),
    seen: ['200', '422'],
  },
  {
    what: 'A field that no operation knows',
    theirs: 'ignored',
    ours: 'ignored, and named in the log of the job',
    verdict: 'better',
    probe: async ({ server, app }) => {
      const id = await submit(server, app, { ensembel: '2' });
      await reaches(server, id, 'done');
      return String((await logOf(server, id)).some((line) => line.includes('ensembel')));
    },
    seen: ['false', 'true'],
  },
  {
    what: 'The same submission again with the same `Idempotency-Key`',
    theirs: 'a second job',
    ours: 'the first job',
    verdict: 'better',
    probe: async ({ server, app }) => {
      const send = async () =>
        (await post(server, app, inferForm(), 'infer', { 'Idempotency-Key': 'once' })).json();
      const [first, second] = [await send(), await send()];
      return String(first.job_id === second.job_id);
    },
    seen: ['false', 'true'],
  },
  {
    what: 'Two files with the same name in one group',
    theirs: 'both are kept, in the order sent',
    ours: 'the same, under the same names',
    verdict: 'same',
    probe: async ({ server, app }) => {
      const form = inferForm({ inputs_groups: '2' });
      form.append('inputs', new Blob(['more']), 'scan.mha');
      const { job_id: id } = await (await post(server, app, form)).json();
      await reaches(server, id, 'done');
      const line = (await logOf(server, id)).find((each) => each.startsWith('konfai-apps '));
      return (line.match(/scan\S*\.mha/g) ?? []).join(' ');
    },
    seen: Array(2).fill('scan.mha scan_1.mha'),
  },
  {
    what: 'No `gpu`, on a server with two GPUs',
    theirs: 'the job waits until all GPUs are free, and gets all of them',
    ours: 'the job gets any free GPU; several with `--gpu 0,1`',
    verdict: 'purpose',
    why: 'the specification says so; jobs that need one GPU run side by side',
    probe: async ({ start, app }) => {
      const server = await start({ gpus: 2 });
      const id = await submit(server, app, doing());
      await reaches(server, id, 'done', 'error');
      const line = (await logOf(server, id)).find((each) => each.includes('Assigned GPUs'));
      await server.stop();
      return String(line?.match(/\d+/g)?.length);
    },
    seen: ['2', '1'],
  },
  {
    what: '`cpu` without `gpu`, on a server with GPUs',
    theirs: 'runs on the GPUs',
    ours: 'runs on the CPU',
    verdict: 'purpose',
    why: 'a job that asks for the CPU gets the CPU',
    probe: async ({ start, app }) => {
      const server = await start({ gpus: 2 });
      const id = await submit(server, app, { cpu: '1' });
      await reaches(server, id, 'done', 'error');
      const line = (await logOf(server, id)).find((each) => each.startsWith('konfai-apps '));
      await server.stop();
      return / --(cpu|gpu) /.exec(line)?.[1];
    },
    seen: ['gpu', 'cpu'],
  },
];
