import * as Flags from '@oclif/core/flags';
import { ClientCommand, FlagValueError, tagFlag, wholeNumber } from '../cli/command/index.js';
import { defaultInterval, type JobsDocument, selectedJobs, watch, watchFlags } from '../cli/jobs/index.js';
import { columnsOf } from '../cli/terminal/index.js';
import { jobsOfOthers } from '../client/connection/index.js';
import { counted, type JobState, jobStates } from '../contract/index.js';

const isState = (name: string): name is JobState => (jobStates as readonly string[]).includes(name);

export default class Jobs extends ClientCommand {
  static override summary = 'List your jobs on the server';
  static override description =
    'Newest first; on a terminal, newest last and with as many columns as fit. Your jobs are those submitted ' +
    'with the same token. A job disappears from the list when its result is removed.';
  static override examples = [
    '<%= config.bin %> jobs',
    '<%= config.bin %> jobs --watch',
    '<%= config.bin %> jobs --tag study-7',
    '<%= config.bin %> jobs --status running,waiting -q | xargs -r <%= config.bin %> kill',
    "<%= config.bin %> jobs --json | jq -r '.jobs[].job_id'",
  ];
  static override flags = {
    status: Flags.custom<JobState[]>({
      helpValue: 'STATE[,STATE]',
      description: `Only jobs in these states: ${jobStates.join(', ')}`,
      parse: async (input, _, { name }) => {
        const states = input.split(',').map((each) => each.trim());
        const wrong = states.find((each) => !isState(each));
        if (wrong !== undefined) throw new FlagValueError(name, jobStates.join(', '), wrong);
        return states.filter(isState);
      },
    })(),
    tag: tagFlag,
    all: Flags.boolean({
      default: false,
      description: "Show the jobs of all owners; requires an admin's token",
    }),
    limit: wholeNumber({ helpValue: 'N', min: 1, description: 'Show only the N newest' }),
    quiet: Flags.boolean({ char: 'q', description: 'Print only ids, one per line' }),
    ...watchFlags,
  };

  async run(): Promise<JobsDocument | undefined> {
    const { flags } = await this.parse(Jobs);
    this.jsonLines = flags.watch;
    const connection = await this.connect(flags);
    const selected = selectedJobs(connection, this.io.colours(this.io.stdout), {
      states: flags.status,
      tag: flags.tag,
      quiet: flags.quiet,
      all: flags.all,
      limit: flags.limit,
      columns: columnsOf(this.io.stdout),
      // Not with `--watch`, which shows the first lines that fit on the screen.
      newestLast: !flags.watch && columnsOf(this.io.stdout) !== undefined,
    });
    if (flags.watch) {
      await watch(connection, this.io, selected, {
        every: flags.every ?? defaultInterval,
        json: this.jsonEnabled(),
      });
      return undefined;
    }
    const document = await selected.read();
    if (document.jobs.length > 0) await this.print(selected.lines(document));
    else if (!flags.quiet && !this.jsonEnabled()) {
      const others = flags.all || flags.status || flags.tag ? 0 : await jobsOfOthers(connection);
      const hint = others === 0 ? '' : `; other owners have ${counted(others, 'job')}, which --all lists`;
      (await this.reporter()).note(selected.none + hint);
    }
    return document;
  }
}
