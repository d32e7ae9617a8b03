import { commands as helpCommands } from '@oclif/plugin-help';
import Apps from '../commands/apps.js';
import Completion from '../commands/completion.js';
import Drain from '../commands/drain.js';
import Evaluate from '../commands/evaluate.js';
import FineTune from '../commands/fine-tune.js';
import Gpus from '../commands/gpus.js';
import Health from '../commands/health.js';
import Infer from '../commands/infer.js';
import Init from '../commands/init.js';
import Jobs from '../commands/jobs.js';
import Kill from '../commands/kill.js';
import Login from '../commands/login.js';
import Logs from '../commands/logs.js';
import Pipeline from '../commands/pipeline.js';
import Result from '../commands/result.js';
import Rm from '../commands/rm.js';
import Serve from '../commands/serve.js';
import Status from '../commands/status.js';
import TokenCreate from '../commands/token/create.js';
import TokenLimit from '../commands/token/limit.js';
import TokenList from '../commands/token/list.js';
import TokenRevoke from '../commands/token/revoke.js';
import TokenRotate from '../commands/token/rotate.js';
import Uncertainty from '../commands/uncertainty.js';
import Usage from '../commands/usage.js';
import Wait from '../commands/wait.js';

/** All commands by name; a colon stands between a topic and its command. oclif is told of this list, and searches no directory and no plugin when it starts. */
export const commands = {
  ...helpCommands,
  apps: Apps,
  completion: Completion,
  drain: Drain,
  evaluate: Evaluate,
  'fine-tune': FineTune,
  gpus: Gpus,
  health: Health,
  infer: Infer,
  init: Init,
  jobs: Jobs,
  kill: Kill,
  login: Login,
  logs: Logs,
  pipeline: Pipeline,
  result: Result,
  rm: Rm,
  serve: Serve,
  status: Status,
  'token:create': TokenCreate,
  'token:limit': TokenLimit,
  'token:list': TokenList,
  'token:revoke': TokenRevoke,
  'token:rotate': TokenRotate,
  uncertainty: Uncertainty,
  usage: Usage,
  wait: Wait,
};
