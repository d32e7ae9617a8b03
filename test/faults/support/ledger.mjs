import { file } from '../../support/form.mjs';
import { checkEnded } from '../invariants.mjs';
import { isFinal, kill, listJobs, request, steps, trySubmit } from './api.mjs';

/** A connection that broke, which a server that is killed does to every client. */
const isCut = (cause) =>
  cause instanceof TypeError || cause.name === 'TimeoutError' || cause.name === 'AbortError';

/** Runs what may be cut by the server's death; null where it was. */
export async function unlessCut(run) {
  try {
    return await run();
  } catch (cause) {
    if (isCut(cause)) return null;
    throw cause;
  }
}

/** What was submitted and how it must end, across all deaths of a server. */
export class Ledger {
  jobs = [];

  constructor(context, witness) {
    this.context = context;
    this.witness = witness;
  }

  /** Jobs that are not known to have ended. */
  get open() {
    return this.jobs.filter(({ isVerified }) => !isVerified);
  }

  /** A random job: short or long, on a GPU or not, with a large or a small result. */
  plan() {
    const { random } = this.context;
    const nonce = random.word(12);
    const isLong = random.chance(0.25);
    const planned = {
      nonce,
      id: null,
      lines: random.integer(1, isLong ? 40 : 12),
      pause: isLong ? '0.03' : '',
      noise: random.chance(0.2) ? random.integer(500, 4000) : 0,
      code: random.chance(0.15) ? random.integer(1, 120) : 0,
      content: `${nonce} ${random.word(random.integer(1, 200))}`,
      devices: random.pick([{ cpu: '1' }, { cpu: '2' }, { gpu: '0' }, { gpu: '1' }, { gpu: '0,1' }, {}]),
      isKillAsked: false,
      isKillConfirmed: false,
      isVerified: false,
    };
    this.jobs.push(planned);
    return planned;
  }

  /** Submits a planned job; again, under the same key, where an earlier try was cut. */
  async submit(server, planned) {
    const { nonce, lines, pause, noise, code, content, devices } = planned;
    const options = steps({ witness: this.witness, nonce, lines, pause: pause || '0', noise, code });
    const form = { inputs: file('scan.nii', content), options, ...devices };
    const answer = await unlessCut(() =>
      trySubmit(server, 'witness', 'infer', form, { 'idempotency-key': nonce }),
    );
    if (answer === null) return;
    if (answer.status === 200) {
      const { job_id: id } = JSON.parse(answer.text);
      const isSame = planned.id === null || planned.id === id;
      this.context.check(isSame, `The key ${nonce} has made two jobs: ${planned.id} and ${id}`);
      planned.id = id;
      return;
    }
    this.context.violation(`A submission was answered with ${answer.status}: ${answer.text}`);
  }

  async kill(server, planned) {
    planned.isKillAsked = true;
    const reply = await unlessCut(() => kill(server, planned.id));
    if (reply?.status === 'killed') planned.isKillConfirmed = true;
  }

  /** Downloads a result in full, unless the server's death cuts it. */
  async download(server, planned) {
    return unlessCut(() => request(server, `/jobs/${planned.id}/result`));
  }

  /** Submits again what was never answered. */
  async settle(server) {
    for (const planned of this.jobs.filter(({ id }) => id === null)) await this.submit(server, planned);
  }

  /** Every job that was accepted is still there. */
  async checkKnown(server) {
    const known = new Set((await listJobs(server)).map(({ job_id }) => job_id));
    for (const { id } of this.open) {
      this.context.check(id === null || known.has(id), `Job ${id} was accepted and is lost`);
    }
  }

  /** Looks at the jobs that have ended since the last time; returns how many have not. */
  async verify(server) {
    const views = new Map((await listJobs(server)).map((view) => [view.job_id, view]));
    for (const planned of this.open) {
      const view = views.get(planned.id);
      if (view === undefined || !isFinal(view)) continue;
      await checkEnded(this.context, server, planned);
      planned.isVerified = true;
    }
    return this.open.length;
  }
}
