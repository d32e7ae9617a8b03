import * as Flags from '@oclif/core/flags';
import { ClientCommand, wantsDeidentified, wholeNumber } from '../cli/command/index.js';
import { describeForwarding, type Forwarding, forwardUntil } from '../cli/server/index.js';
import { defaultPort } from '../contract/index.js';

export default class Forward extends ClientCommand {
  static override summary = 'Let programs that only speak plain HTTP, such as 3D Slicer, use the server';
  static override description =
    'Listens on 127.0.0.1 and ::1 until Ctrl-C, and forwards every request to the server with its token, over ' +
    'TLS, ssh or a proxy. Prints the host, port and token to enter in the other program; each run makes a new ' +
    'token. If the server cannot be reached, the response is a 502 with an explanation. Requests are forwarded ' +
    'unchanged. If the profile asks for --deidentify, uploads are refused and only other requests, such as those ' +
    'for logs and results, are forwarded, unless --no-deidentify is given. With --json, prints one document on ' +
    'one line once it listens.';
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
      description: 'Port to listen on; 0 picks a free one',
    }),
    'no-deidentify': Flags.boolean({
      description:
        'Forward everything unchanged, even if the profile or the environment asks for --deidentify',
    }),
  };

  /** The document is one line, so that a program that reads a line gets all of it. */
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
