/** What the `token` commands share: the token file, its edits and its text. */
export {
  appsFlag,
  type Edits,
  expiresFlag,
  limitFlags,
  limitsOf,
  type NewToken,
  nameArg,
  TokenCommand,
  tokensFlag,
  withTokenFile,
} from './token-command.js';
export {
  allowedLine,
  type ListedToken,
  limitLine,
  listedToken,
  type ToldByServer,
  tokenTable,
} from './token-text.js';
