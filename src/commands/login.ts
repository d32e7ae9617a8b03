import { appFlag, ClientCommand, deidentifyFlag, type Settings, wholeNumber } from '../cli/command/index.js';
import { type Login as LoginSummary, logIn } from '../cli/server/index.js';

export default class Login extends ClientCommand {
  static override summary = "Save a server's address and token";
  static override description =
    'Checks them, then saves a profile that only you can read. Without --token or --token-file, asks for the ' +
    'token or reads it from stdin.';
  static override examples = [
    '<%= config.bin %> login --server https://gpu.example.org',
    '<%= config.bin %> login --server https://gpu.example.org --profile lab < token.txt',
  ];
  static override flags = {
    app: appFlag,
    deidentify: deidentifyFlag,
    timeout: wholeNumber({
      min: 1,
      default: 10,
      helpValue: 'SECONDS',
      description: 'How long to wait for the response',
    }),
  };

  async run(): Promise<LoginSummary> {
    const { flags } = await this.parse(Login);
    const connect = (settings: Settings) => this.connectTo(settings, flags);
    const login = await logIn(flags, this.io, this.config.configDir, connect, this.typed);
    await this.print([`Logged in to ${login.server}; the profile '${login.profile}' is in ${login.file}`]);
    return login;
  }
}
