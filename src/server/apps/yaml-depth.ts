import { Lexer, Parser } from 'yaml';

/** Most levels of a YAML text that is read. KonfAI's configurations have about ten, and the schema of an app.json needs 5. */
const deepest = 64;

/**
 * Whether a YAML text has more levels than are read. What makes values of a text goes through its levels recursively, and where
 * the call stack ends in one of its regular expressions, Node ends the whole process. The parser of the syntax alone has a stack
 * of its own.
 */
export function isDeepYaml(text: string): boolean {
  const parser = new Parser();
  for (const token of new Lexer().lex(text)) {
    for (const _ of parser.next(token));
    if (parser.stack.length > deepest) return true;
  }
  return false;
}
