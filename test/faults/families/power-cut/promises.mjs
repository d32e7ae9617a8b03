const finals = /"job_id":\s*"([0-9a-f]{12})",\s*"status":\s*"(done|error|killed)"/g;
const envelopes = /"job_id":\s*"([0-9a-f]{12})",\s*"status_url"/g;
const begun = /^HTTP\/1\.1 201 [\s\S]*?\r\n\r\n/gm;

/** What the server has told its clients, up to a call of the trace. */
export class Promises {
  accepted = new Set();
  /** The end of each job that an answer stated. */
  ends = new Map();
  /** The offset of each upload that an answer stated, by its name. */
  uploads = new Map();
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
    const before = this.accepted.size + this.ends.size + this.uploads.size;
    if (!/^(socket|TCP)/.test(to)) return false;
    const said = Buffer.concat(args.flatMap(({ bytes }) => bytes ?? [])).toString('latin1');
    for (const [, id] of said.matchAll(envelopes)) this.accepted.add(id);
    for (const [, id, status] of said.matchAll(finals)) this.ends.set(id, status);
    for (const [head] of said.matchAll(begun)) {
      const name = /^Location: uploads\/([0-9a-f]{64})\r$/m.exec(head)?.[1];
      const offset = Number(/^Upload-Offset: (\d+)\r$/m.exec(head)?.[1]);
      if (name !== undefined) this.uploads.set(name, Math.max(offset, this.uploads.get(name) ?? 0));
    }
    return this.accepted.size + this.ends.size + this.uploads.size > before;
  }
}
