import type { Canvas } from '../../client/case/index.js';
import { type CommandIo, hasColour } from './command-io.js';

/** Columns and rows of a terminal that does not report its size. */
const [usualColumns, usualRows] = [80, 24];

/**
 * Whether a terminal shows 16 million colours, 256, or neither. Node's own `getColorDepth` recognises neither kitty over ssh,
 * where COLORTERM is not passed on, nor true colour in tmux.
 */
function colourLook(env: NodeJS.ProcessEnv): 'true colour' | '256 colours' | 'characters' {
  const { COLORTERM = '', FORCE_COLOR, TERM = '' } = env;
  const isTrue =
    ['truecolor', '24bit'].includes(COLORTERM) ||
    /^(xterm-kitty|xterm-ghostty|wezterm)$|-direct$/.test(TERM) ||
    process.platform === 'win32';
  if (isTrue || FORCE_COLOR === '3') return 'true colour';
  return /-256(color)?$/.test(TERM) || FORCE_COLOR === '2' ? '256 colours' : 'characters';
}

/** What the terminal of stdout can show. */
export function canvasOfTerminal({ stdout, env }: CommandIo): Canvas {
  const look = hasColour(stdout, env) ? colourLook(env) : 'characters';
  return { look, columns: stdout.columns || usualColumns, rows: stdout.rows || usualRows };
}
