import * as Flags from '@oclif/core/flags';
import { ClientCommand, wantsDeidentified, wholeNumber } from '../cli/command/index.js';
import { describeForwarding, type Forwarding, forwardUntil } from '../cli/server/index.js';
import { defaultPort } from '../contract/index.js';

export default class Forward extends ClientCommand {
  static override summary = 'Let programs that speak plain HTTP, such as 3D Slicer, use the server';
  static override description =
    'Listens on this machine alone, at 127.0.0.1 and ::1, until Ctrl-C, and passes every request on to the server: with its token, \
over TLS, ssh or a proxy. Prints the host, the port and a token to give to the other program. That token is made anew by each run. \
A server that is away is answered for with status 502 and a sentence. It changes nothing in what is sent. Where the profile asks for --deidentify, it refuses uploads and passes on only requests such as those for logs and results, unless --no-deidentify is given. With --json, prints one document on one line when it listens.';
  static override examples = [
    '<%= config.bin %> forward',
    '<%= config.bin %> forward --server ssh://gpu.example.org --port 8001',
  ];
  static override flags = {
    port: wholeNumber({
      min: 0,
      max: 65_535,
      default: defaultPort,
      helpValue: 'PORT',
      description: 'Port to listen on; 0 for any free one',
    }),
    'no-deidentify': Flags.boolean({
      description:
        'Forward everything as it is, although the profile or the environment asks for --deidentify',
    }),
  };

  /** So that a program that reads a line has all of it. */
  protected override jsonLines = true;

  async run(): Promise<void> {
    const { flags } = await this.parse(Forward);
    const settings = await this.settings(flags);
    const passesFiles = flags['no-deidentify'] || !wantsDeidentified(this.io.env, settings);
    const connection = await this.connectTo(settings, flags);
    const announce = async (forwarding: Forwarding) => {
      if (this.jsonEnabled()) this.logJson(forwarding);
      else await this.print(describeForwarding(forwarding));
    };
    const [reporter, signal] = [await this.reporter(), this.interruption];
    await forwardUntil(connection, { port: flags.port, passesFiles }, { announce, reporter, signal });
  }
}
