import { ClientCommand, outputFlags } from '../cli/command/index.js';
import { jobArg } from '../cli/jobs/index.js';
import { commandAgain, runFlags } from '../cli/submit/index.js';

export default class Retry extends ClientCommand {
  static override summary = 'Submit a job again';
  static override description =
    'Repeats the command that submitted the job, in the same directory, with the same options and the same files ' +
    'as they are now. This machine remembers the commands of its last 200 jobs, without tokens. The old job is ' +
    'not changed.';
  static override examples = [
    '<%= config.bin %> retry 3f9a0c1b2d4e',
    '<%= config.bin %> retry 3f9a0c1b2d4e -o ./Again',
  ];
  static override args = { job: jobArg };
  static override flags = { ...outputFlags, detach: runFlags.detach };

  async run(): Promise<undefined> {
    const { args, flags, raw } = await this.parse(Retry);
    const booleans = new Set(['force', 'detach']);
    const again = commandAgain(this.config.configDir, args.job, raw, booleans, flags.output);
    (await this.reporter()).note(`Again: ${this.config.bin} ${again.shown}`);
    // The repeated command prints everything, also with --json, and sets the exit code.
    await this.config.runCommand(again.command, [...again.argv, ...(this.jsonEnabled() ? ['--json'] : [])]);
    return undefined;
  }
}
