import { ClientCommand, connectionFlags } from '../cli/command/index.js';
import { type Logout as LogoutSummary, logOut } from '../cli/server/index.js';
import { tokenVariable } from '../contract/index.js';

export default class Logout extends ClientCommand {
  static override summary = "Forget a profile's token";
  static override description =
    "Removes the token that 'login' saved on this machine; the address is kept. The token itself remains valid " +
    "until the server's admin revokes it with 'token revoke'.";
  static override examples = ['<%= config.bin %> logout', '<%= config.bin %> logout --profile lab'];
  static override baseFlags = {} as typeof ClientCommand.baseFlags;
  static override flags = { profile: connectionFlags.profile };

  async run(): Promise<LogoutSummary> {
    const { flags } = await this.parse(Logout);
    const done = logOut(flags.profile, this.config.configDir);
    const { profile, server, removed } = done;
    await this.print([
      removed
        ? `Logged out of ${server}; the profile '${profile}' keeps its address`
        : `The profile '${profile}' has no token`,
    ]);
    if (this.io.env[tokenVariable]) {
      (await this.reporter()).note(`${tokenVariable} is set: commands go on sending the token in it`);
    }
    return done;
  }
}
