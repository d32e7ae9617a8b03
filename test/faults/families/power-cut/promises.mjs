const finals = /"job_id":\s*"([0-9a-f]{12})",\s*"status":\s*"(done|error|killed)"/g;
const envelopes = /"job_id":\s*"([0-9a-f]{12})",\s*"status_url"/g;

/** What the server has told its clients, up to a call of the trace. */
export class Promises {
  accepted = new Set();
  /** The end of each job that an answer stated. */
  ends = new Map();
  /** Jobs whose runner may have begun: how far the command came is unknown. */
  begun = new Set();

  /** Takes in one call; returns whether it promised something new. */
  hear({ name, args, paths, opened = '', given }) {
    const made = given.includes('O_CREAT') ? [opened] : /^(link|rename)/.test(name) ? paths : [];
    for (const path of made) {
      const id = /\/jobs\/([0-9a-f]{12})\/run(ner)?\.json$/.exec(path)?.[1];
      if (id !== undefined) this.begun.add(id);
    }
    if (!/^(write|writev|sendmsg|sendto)$/.test(name)) return false;
    const to = args[0]?.path ?? '';
    const before = this.accepted.size + this.ends.size;
    if (!/^(socket|TCP)/.test(to)) return false;
    const said = Buffer.concat(args.flatMap(({ bytes }) => bytes ?? [])).toString('latin1');
    for (const [, id] of said.matchAll(envelopes)) this.accepted.add(id);
    for (const [, id, status] of said.matchAll(finals)) this.ends.set(id, status);
    return this.accepted.size + this.ends.size > before;
  }
}
