import { existsSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { counted, excerpt, oneLine, quoteName, quotePath } from '../../contract/index.js';
import { findProgram, orElse } from '../../files/index.js';
import { runProgram } from '../../programs/index.js';
import { textOf } from './manifest.js';

/** The content of an app's JSON file; undefined if it cannot be read. */
export const jsonOf = (file: string): unknown => orElse(() => JSON.parse(textOf(file) ?? ''), undefined);

/** Milliseconds that an interpreter is given for a check. */
const patience = 30_000;

const packageSchema = z.object({ dependencies: z.record(z.string(), z.unknown()).optional() });

/** Whether Node finds a package from a directory: in the `node_modules` of that directory or of one above it. */
function isInstalled(name: string, directory: string): boolean {
  if (existsSync(path.join(directory, 'node_modules', name))) return true;
  const above = path.dirname(directory);
  return above !== directory && isInstalled(name, above);
}

/** A sentence about the dependencies in an app's package.json that are not installed, if there are any. */
function missingNodePackages(directory: string, command: readonly string[]): string[] {
  const isNode = command.some((word) => /(^|\/)node$|\.[cm]?js$/.test(word));
  const file = path.join(directory, 'package.json');
  const { data } = packageSchema.safeParse(isNode ? jsonOf(file) : undefined);
  const names = Object.keys(data?.dependencies ?? {});
  const missing = names.filter((name) => !isInstalled(name, directory));
  if (missing.length === 0) return [];
  const list = excerpt(missing.join(', '), 500);
  return [
    `${file}: ${counted(missing.length, 'package')} not installed: ${list}; run 'npm install' in ${quotePath(directory)}`,
  ];
}

/** A sentence about a program that Node cannot parse. The program is not run. */
async function syntaxProblem(
  directory: string,
  command: readonly string[],
  searched: string,
): Promise<string[]> {
  const [first = ''] = command;
  const program = command.find((word) => /\.[cm]?js$/.test(word) && word.startsWith(directory + path.sep));
  const node = path.basename(first) === 'node' ? findProgram(first, searched) : undefined;
  if (node === undefined || program === undefined || !existsSync(program)) return [];
  const { exitCode, stderr } = await runProgram([node, '--check', program], {
    environment: process.env,
    limit: patience,
    maxBytes: 64 * 1024,
    beyond: 'keepFirst',
  });
  if (exitCode === 0) return [];
  const [, line = '1'] = /:(\d+)\n/.exec(stderr) ?? [];
  const [why = 'it cannot be read'] = /^\w*Error: .*$/m.exec(stderr) ?? [];
  return [`${program}, line ${line}: ${oneLine(why)}`];
}

/** The package names in a requirements.txt. Lines with options, addresses or conditions are left to pip. */
const requirementsIn = (text: string): string[] =>
  text.split('\n').flatMap((line) => {
    const [, name] = /^\s*([A-Za-z0-9][\w.-]*)\s*(\[[^\]]*\]\s*)?([<>=!~#][^;]*)?$/.exec(line) ?? [];
    return name ?? [];
  });

/**
 * Python script, run by the app's Python: finds distributions that are not installed, and missing modules among the top-level
 * imports of the program and of the app's own modules. Imports nothing of the app.
 */
const lookForModules = `
import ast, importlib.metadata, importlib.util, json, os, re, sys
_, directory, program, *names = sys.argv
plain = lambda name: re.sub(r"[-_.]+", "-", name or "").lower()
installed = {plain(each.metadata["Name"]) for each in importlib.metadata.distributions()}
lost, modules, broken, seen = [name for name in names if plain(name) not in installed], [], [], set()
sys.path[0] = os.path.dirname(program)
def look(file):
    if file in seen:
        return
    seen.add(file)
    try:
        tree = ast.parse(open(file, "rb").read())
    except (SyntaxError, ValueError) as error:
        broken.append([file, getattr(error, "lineno", None) or 1, str(getattr(error, "msg", error))])
        return
    for node in tree.body:
        imported = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            imported = [node.module]
        for name in imported:
            top = name.split(".")[0]
            found = importlib.util.find_spec(top) if top not in sys.builtin_module_names else sys
            if found is None:
                modules.append([top, file, node.lineno])
            origin = getattr(found, "origin", None) or ""
            if origin.startswith(directory + os.sep) and "site-packages" not in origin and origin.endswith(".py"):
                look(origin)
if program:
    look(program)
print(json.dumps({"packages": lost, "modules": modules, "broken": broken}))
`;

const modulesSchema = z.object({
  packages: z.array(z.string()),
  modules: z.array(z.tuple([z.string(), z.string(), z.number()])),
  /** Files that Python cannot parse. */
  broken: z.array(z.tuple([z.string(), z.number(), z.string()])),
});

/** Runs a script that prints JSON. @returns null if the script fails or prints anything else */
async function askPython<T>(
  python: string,
  script: string,
  args: readonly string[],
  schema: z.ZodType<T>,
): Promise<T | null> {
  try {
    // Not run in the app's directory, where Python would find the app's modules first.
    const { exitCode, stdout } = await runProgram([python, '-c', script, ...args], {
      environment: process.env,
      limit: patience,
      maxBytes: 2 ** 20,
    });
    return exitCode === 0 ? schema.parse(JSON.parse(stdout)) : null;
  } catch {
    return null;
  }
}

/** The Python that runs an app; undefined if the app is run by another program, or if that Python does not exist. */
const pythonOf = ([first = '']: readonly string[], searched: string): string | undefined =>
  /^python[\d.]*$/.test(path.basename(first)) ? findProgram(first, searched) : undefined;

/**
 * Python script that prints whether the installed PyTorch was built without CUDA. Reads its version file, because importing
 * PyTorch takes seconds.
 */
const lookForCuda = `
import importlib.util, json, os, re
found = importlib.util.find_spec("torch")
text = open(os.path.join(os.path.dirname(found.origin), "version.py")).read() if found else ""
print(json.dumps(re.search(r"^cuda\\b[^=]*=\\s*None", text, re.M) is not None))
`;

/** The Python of an app that requires PyTorch, if its PyTorch was built without CUDA; otherwise null. */
export async function pythonWithoutCuda(
  directory: string,
  command: readonly string[],
  searched: string,
): Promise<string | null> {
  const names = requirementsIn(textOf(path.join(directory, 'requirements.txt')) ?? '');
  const python = pythonOf(command, searched);
  if (python === undefined || !names.includes('torch')) return null;
  return (await askPython(python, lookForCuda, [], z.boolean())) ? python : null;
}

/**
 * Sentences about the Python modules that an app needs but that are not installed: those in its requirements.txt, and those that
 * its program imports.
 * @param mayRunOwn whether a Python in the app's own directory may be started, outside any sandbox
 */
async function missingPythonModules(
  directory: string,
  command: readonly string[],
  searched: string,
  mayRunOwn: boolean,
): Promise<string[]> {
  const [, ...others] = command;
  const python = pythonOf(command, searched);
  if (python === undefined || (!mayRunOwn && python.startsWith(directory + path.sep))) return [];
  const program = others.find((word) => word.endsWith('.py') && word.startsWith(directory + path.sep)) ?? '';
  const requirements = path.join(directory, 'requirements.txt');
  const names = requirementsIn(textOf(requirements) ?? '');
  const found = await askPython(python, lookForModules, [directory, program, ...names], modulesSchema);
  if (found === null) return [];
  const { packages, modules, broken } = found;
  const sentences = [
    ...broken.map(([file, line, why]) => `${file}, line ${line}: ${python} cannot read it: ${oneLine(why)}`),
    ...modules.map(
      ([name, file, line]) =>
        `${file}, line ${line}: ${python} has no module ${quoteName(name)}; install the package that brings it`,
    ),
  ];
  if (packages.length === 0) return sentences;
  const list = excerpt(packages.join(', '), 500);
  return [
    `${requirements}: ${counted(packages.length, 'package')} not installed for ${python}: ${list}; run '${python} -m pip install -r requirements.txt' in ${quotePath(directory)}`,
    ...sentences,
  ];
}

/** How thoroughly to check for the packages of an app. */
export type Thoroughness =
  /** No program is started. */
  | 'files'
  /** The app's Python is run, unless it is a file of the app, which would then run outside the sandbox. */
  | 'python'
  /** The app's Python is run, wherever it is. */
  | 'own-python';

/** Sentences about the packages that are not installed although an app with its own command needs them. */
export async function missingPackages(
  directory: string,
  command: readonly string[],
  searched: string,
  thoroughness: Thoroughness,
): Promise<string[]> {
  const ofNode = missingNodePackages(directory, command);
  if (thoroughness === 'files') return ofNode;
  const mayRunOwn = thoroughness === 'own-python';
  return [
    ...ofNode,
    ...(await syntaxProblem(directory, command, searched)),
    ...(await missingPythonModules(directory, command, searched, mayRunOwn)),
  ];
}
