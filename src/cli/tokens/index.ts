/** What the `token` commands share: the token file, its edits and its text. */
export {
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
export { type ListedToken, limitLine, listedToken, tokenTable } from './token-text.js';
